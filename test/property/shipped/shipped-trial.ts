import { randomUUID } from 'node:crypto'
import { createBackground, createEngine, type Engine, type Pipeline } from '@pawl/core'
import { type FakeProvider, fakeProvider } from '@pawl/crash-kit'
import pg from 'pg'
import { inject } from 'vitest'
import { concludeTrial } from '../../../packages/crash-kit/src/case/conclude-trial.js'
import { isOver } from '../../../packages/crash-kit/src/database/is-over.js'
import type { Environment } from '../../../packages/crash-kit/src/actors/environment.js'
import { Trial } from '../../../packages/crash-kit/src/actors/trial.js'
import { applicationName } from '../../../packages/crash-kit/src/database/backends.js'
import { renderTimeline } from '../../../packages/crash-kit/src/finding/render-timeline.js'
import type { History, Row, Violation } from '../../../packages/crash-kit/src/history.js'
import { type OpenEnvironment, openEnvironment } from '../../../packages/crash-kit/src/open-environment.js'
import { judge } from '../../../packages/crash-kit/src/oracle/judge.js'
import { BOUND, guarded } from '../../support/guards.js'
import { LAYOUT } from '../../support/layout.js'
import { buildPipeline, type ChargeProvider } from '../pipelines/build-pipeline.js'
import { Chances } from '../pipelines/chances.js'
import { createFactTables, type FactDatabase } from '../pipelines/fact-tables.js'
import { EMPTY_PLAN } from '../pipelines/pipeline-plan.js'
import { referenceModel } from '../pipelines/reference-model.js'
import { modelViolations } from '../survival/model-violations.js'
import type { ShippedCase } from './shipped-case.js'
import { transactionEvidence } from './transaction-evidence.js'

/** The client, which is the name of its connections as well. */
const CLIENT = 'client'

/** Rounds that the largest plan can need, with trouble in every phase. */
const MOST_ROUNDS = 60

/** More and more time passes before each round, up to this, because the completer lets keys rest for longer and longer. */
const MOST_REST = 8

/** More attempts than anything that goes wrong in a case can use up: that a key is stuck at its cap is tested elsewhere. */
const SETTINGS = { transactionRetries: 2, maxAttempts: 200 }

/** What one case showed. */
export interface Shipped {
  readonly violations: readonly Violation[]
  readonly timeline: string
}

/**
 * Runs cases on the engine as it ships: `createEngine` on an ordinary pool, with nothing between it and the server, and no
 * probe in it. What goes wrong comes from the pipeline, from the provider, and from another connection.
 */
export class ShippedTrial {
  readonly #opened: OpenEnvironment
  readonly #provider: FakeProvider
  readonly #pool: pg.Pool
  cases = 0
  kills = 0

  private constructor(opened: OpenEnvironment, provider: FakeProvider) {
    this.#opened = opened
    this.#provider = provider
    this.#pool = new pg.Pool(opened.environment.database.poolConfig(CLIENT, { max: 3 }))
    this.#pool.on('error', () => {})
    this.#pool.setMaxListeners(0)
  }

  static async open(): Promise<ShippedTrial> {
    const provider = fakeProvider()
    const nowhere = { charge: () => Promise.reject(new Error('nobody asks')), find: async () => null }
    const opened = await openEnvironment({
      pipeline: () => buildPipeline(EMPTY_PLAN, { provider: nowhere, chances: new Chances() }),
      pool: new pg.Pool({ connectionString: inject('databaseUrl') }),
      provider,
      prepare: ({ pool, schema }) => createFactTables(pool, schema),
      ...LAYOUT,
      engine: guarded({}),
      request: { scope: 'any', input: null as never },
    })
    return new ShippedTrial(opened, provider)
  }

  async close(): Promise<void> {
    await this.#pool.end()
    await this.#opened.close()
  }

  async run(each: ShippedCase): Promise<Shipped> {
    const { plan, input, sending } = each
    const chances = new Chances()
    const calls: Caller = { trial: null, execution: 0 }
    const pipeline = buildPipeline(plan, {
      provider: chargesAt(this.#provider, calls),
      chances,
      settings: SETTINGS,
    })
    const environment = this.#environmentOf(each, pipeline)
    const trial = await Trial.open(environment)
    calls.trial = trial
    for (const fault of each.provider) environment.provider?.arm(fault)
    const { database } = environment
    const engine = createEngine<FactDatabase>({
      ...environment.engine,
      ...sending,
      pool: this.#pool,
      pipelines: [pipeline],
      schema: database.pawlSchema,
    })
    const rounds = await this.#play(engine, pipeline, trial, calls, each)
    const lost = this.#lostClients()
    const evidence = await transactionEvidence(database, await database.commitsSince(trial.mark), plan)
    const { history, seen, timeline } = await concludeTrial(trial)
    this.cases++
    const violations = [
      ...evidence,
      ...lost,
      ...seen,
      ...judge(disturbed(history, rounds), environment.shape, null).filter(({ rule }) => rule !== 'lint'),
      ...modelViolations(history, referenceModel(plan, input), plan),
    ]
    return { violations, timeline: violations.length === 0 ? '' : renderTimeline(timeline) }
  }

  /** The client asks, backends are killed, and then the completer finishes. Returns its rounds, or null if it could not. */
  async #play(
    engine: Engine<FactDatabase>,
    pipeline: Pipeline<FactDatabase, never>,
    trial: Trial,
    calls: Caller,
    { kills, asks }: ShippedCase,
  ): Promise<number | null> {
    const over = new AbortController()
    const killing = this.#kill(kills, trial, over.signal)
    try {
      for (let ask = 0; ask < asks; ask++) {
        await askOnce(engine, pipeline, trial, calls)
        if (await isEnded(trial)) return 0
        await pass(trial, ask)
      }
      over.abort()
      await killing
      // Nobody got as far as reserving the key, so the completer cannot know of it.
      if ((await keyRow(trial)) === null) await askOnce(engine, pipeline, trial, calls)
      const { completer } = createBackground({ engine, reaper: false })
      for (let round = 1; round <= MOST_ROUNDS; round++) {
        calls.execution = trial.nextExecution()
        await completer?.runOnce()
        if (await isEnded(trial)) return round
        await pass(trial, round)
      }
      return null
    } finally {
      over.abort()
      await killing
      await engine.close()
    }
  }

  #environmentOf({ plan, input }: ShippedCase, pipeline: Pipeline<FactDatabase, never>): Environment {
    return {
      ...this.#opened.environment,
      pipeline: () => pipeline,
      shape: {
        name: 'random-pipeline',
        version: 1,
        points: ['started', ...plan.phases.map(({ name }) => name), 'finished'],
        foreign: plan.phases.flatMap((phase) =>
          phase.kind === 'foreign' ? [{ phase: phase.name, guarantee: phase.guarantee }] : [],
        ),
        maxAttempts: SETTINGS.maxAttempts,
      },
      request: { scope: `scope-${randomUUID()}`, input, ...BOUND },
    }
  }

  /** Terminates one backend after another that works for the client, at moments that only the server's timing decides. */
  async #kill(kills: readonly number[], trial: Trial, over: AbortSignal): Promise<void> {
    const { admin, id } = trial.environment.database
    for (const after of kills) {
      for (let passed = 0; passed < after && !over.aborted; passed++) await admin.query('SELECT 1')
      if (over.aborted) return
      const { rowCount } = await admin.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE application_name = $1 AND state <> 'idle' LIMIT 1`,
        [applicationName(id, CLIENT)],
      )
      this.kills += rowCount ?? 0
      if (rowCount === 1) trial.recordNow('kit', 'a backend of the client is terminated')
    }
  }

  #lostClients(): Violation[] {
    const { totalCount, idleCount, waitingCount } = this.#pool
    if (totalCount === idleCount && waitingCount === 0) return []
    const detail = `${totalCount - idleCount} of ${totalCount} connections did not come back to their pool.`
    return [{ rule: 'I14', title: 'after any fault, connections have come back', detail }]
  }
}

/** Who makes the calls that the provider gets. */
interface Caller {
  trial: Trial | null
  execution: number
}

function chargesAt(provider: FakeProvider, caller: Caller): ChargeProvider {
  return {
    charge: async ({ phase, number }, options) => {
      const { trial, execution } = caller
      const { idempotencyKey = null } = options
      if (idempotencyKey !== null)
        trial?.calls.push({
          tick: trial.tick(),
          actor: CLIENT,
          execution,
          phase,
          kind: 'call',
          idempotencyKey,
        })
      const leave = trial?.enter({ actor: CLIENT, execution, phase, kind: 'call', idempotencyKey })
      try {
        return await provider.send({ phase, number }, options)
      } finally {
        leave?.()
      }
    },
    find: (idempotencyKey) => provider.find(idempotencyKey),
  }
}

async function askOnce(
  engine: Engine<FactDatabase>,
  pipeline: Pipeline<FactDatabase, never>,
  trial: Trial,
  caller: Caller,
): Promise<void> {
  const { scope, input, bindTo } = trial.environment.request
  const execution = trial.nextExecution()
  caller.execution = execution
  const outcome = await engine.execute(pipeline, {
    scope,
    key: trial.key,
    input: input as never,
    ...(bindTo === undefined ? {} : { bindTo }),
  })
  await trial.recordOutcome({ actor: CLIENT, execution, outcome, disturbed: true, otherRequest: false })
}

function keyRow({ environment, scope, key }: Trial): Promise<Row | null> {
  return environment.database.keyRow(scope, key)
}

async function isEnded(trial: Trial): Promise<boolean> {
  return isOver(await keyRow(trial))
}

async function pass(trial: Trial, round: number): Promise<void> {
  if ((await keyRow(trial)) !== null) await trial.passUntilDue(Math.min(round, MOST_REST))
}

/** Whoever runs it may be told that something was not available. */
function disturbed(history: History, rounds: number | null): History {
  const outcomes = history.outcomes.map((each) => ({ ...each, disturbed: true }))
  return { ...history, outcomes, completerRounds: rounds }
}
