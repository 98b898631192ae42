import { randomUUID } from 'node:crypto'
import { type FakeProvider, fakeProvider } from '@pawl/crash-kit'
import pg from 'pg'
import { inject } from 'vitest'
import { runPending } from '../../../packages/crash-kit/src/case/run-case.js'
import type { Environment } from '../../../packages/crash-kit/src/actors/environment.js'
import { Trial } from '../../../packages/crash-kit/src/actors/trial.js'
import { FAULTS } from '../../../packages/crash-kit/src/faults/faults.js'
import type { Fault } from '../../../packages/crash-kit/src/faults/fault.js'
import { renderTimeline } from '../../../packages/crash-kit/src/finding/render-timeline.js'
import type { History, Violation } from '../../../packages/crash-kit/src/history.js'
import { type OpenEnvironment, openEnvironment } from '../../../packages/crash-kit/src/open-environment.js'
import { judge } from '../../../packages/crash-kit/src/oracle/judge.js'
import { runRace } from '../../../packages/crash-kit/src/races/run-race.js'
import { BOUND, guarded } from '../../support/guards.js'
import { LAYOUT } from '../../support/layout.js'
import { buildPipeline } from '../pipelines/build-pipeline.js'
import { Chances } from '../pipelines/chances.js'
import { createFactTables } from '../pipelines/fact-tables.js'
import { EMPTY_PLAN, forgetsAwaits } from '../pipelines/pipeline-plan.js'
import { referenceModel } from '../pipelines/reference-model.js'
import { UnsentWrites, type Write } from '../pipelines/unsent-writes.js'
import { modelViolations } from './model-violations.js'
import { observeHistory } from './observe-history.js'
import type { Disturbance, SurvivalCase } from './survival-case.js'

/** A call whose declaration is lost may rightly be made again, which the model does not know. */
const whereKeyed = (fault: Fault): Fault => ({
  ...fault,
  appliesTo: (position, shape) =>
    shape.foreign.every(({ guarantee }) => guarantee === 'keyed') && fault.appliesTo(position, shape),
})

const FAULT_BY_ID = new Map<string, Fault>(
  Object.entries(FAULTS).flatMap(([name, faults]) =>
    faults.map((fault: Fault) => [fault.id, name === 'failover' ? whereKeyed(fault) : fault] as const),
  ),
)

/**
 * Actors of a race wait for rows that another has locked, such as the totals of their scope, but not for long. There are
 * more attempts than all faults and troubles of a case together, because keys that are stuck at their cap are tested elsewhere.
 */
const SETTINGS = { lockTimeoutMs: 250, transactionRetries: 2, maxAttempts: 100 }

/** What one case showed. */
export interface Survival {
  readonly violations: readonly Violation[]
  readonly timeline: string
  /** Faults that struck. */
  readonly fired: number
  /** What the bodies that committed had not sent. */
  readonly unsent: readonly Write[]
  /** What became of the key. */
  readonly status: string
}

/** Runs cases on one database, with a provider that all of them share one after the other. */
export class SurvivalTrial {
  readonly #opened: OpenEnvironment
  readonly #provider: FakeProvider
  fired = 0
  cases = 0

  private constructor(opened: OpenEnvironment, provider: FakeProvider) {
    this.#opened = opened
    this.#provider = provider
  }

  static async open(): Promise<SurvivalTrial> {
    const provider = fakeProvider()
    const where = new pg.Pool({ connectionString: inject('databaseUrl') })
    const opened = await openEnvironment({
      pipeline: () => buildPipeline(EMPTY_PLAN, { provider: chargesAt(provider), chances: new Chances() }),
      pool: where,
      provider,
      prepare: ({ pool, schema }) => createFactTables(pool, schema),
      ...LAYOUT,
      engine: guarded({}),
      request: { scope: 'any', input: null as never },
    })
    return new SurvivalTrial(opened, provider)
  }

  close(): Promise<void> {
    return this.#opened.close()
  }

  async run({ plan, input, sending, disturbance }: SurvivalCase): Promise<Survival> {
    const parts = { provider: chargesAt(this.#provider), chances: new Chances(), settings: SETTINGS }
    const unsentWrites = new UnsentWrites()
    const pipeline = () => buildPipeline(plan, { ...parts, unsentWrites })
    const environment: Environment = {
      ...this.#opened.environment,
      engine: { ...this.#opened.environment.engine, ...sending },
      pipeline,
      shape: {
        name: 'random-pipeline',
        version: 1,
        points: ['started', ...plan.phases.map(({ name }) => name), 'finished'],
        foreign: plan.phases.flatMap((phase) =>
          phase.kind === 'foreign' ? [{ phase: phase.name, guarantee: phase.guarantee }] : [],
        ),
        maxAttempts: 10,
      },
      request: { scope: `scope-${randomUUID()}`, input, ...BOUND },
    }
    const { history, seen, timeline, fired } = await disturb(environment, disturbance)
    this.fired += fired
    this.cases++
    // Bodies are written as people write them, so it is no news that they forget an await.
    const isNews = ({ rule, title }: Violation): boolean =>
      rule !== 'lint' || !(forgetsAwaits(plan) || title.includes('awaited'))
    const unsentIn = unsentWrites.committedIn(history.commits)
    const unsent = environment.shape.points.flatMap((phase) => [...unsentIn(phase)])
    const violations = [
      // A pipeline that fails by itself disturbs whoever runs it.
      ...[...seen, ...judge(disturbed(history), environment.shape, null)].filter(isNews),
      ...modelViolations(history, referenceModel(plan, input, unsentIn), plan),
    ]
    const { status } = observeHistory(history)
    const told = violations.length === 0 ? '' : renderTimeline(timeline)
    return { violations, timeline: told, fired, unsent, status }
  }
}

function disturbed(history: History): History {
  return { ...history, outcomes: history.outcomes.map((each) => ({ ...each, disturbed: true })) }
}

async function disturb(environment: Environment, disturbance: Disturbance) {
  if (disturbance.by === 'race') {
    const { roles, schedule } = disturbance
    const killed = schedule.turns.filter(
      ({ turn }) => turn === 'kill' || turn === 'throw' || turn === 'expire',
    ).length
    return { ...(await runRace(environment, roles, schedule)), fired: killed }
  }
  const pending = disturbance.strikes.flatMap(({ fault: id, after }) => {
    const fault = FAULT_BY_ID.get(id)
    return fault === undefined ? [] : [{ fault, at: after, attempt: null, struck: false, fired: false }]
  })
  const result = await runPending(await Trial.open(environment), pending)
  return { ...result, fired: result.fired.filter(Boolean).length }
}

function chargesAt(provider: FakeProvider) {
  return {
    charge: (
      body: { readonly keyId: string; readonly phase: string; readonly number: number },
      options: { readonly idempotencyKey?: string; readonly signal: AbortSignal },
    ) => provider.send({ phase: body.phase, number: body.number }, options),
    find: (idempotencyKey: string) => provider.find(idempotencyKey),
  }
}
