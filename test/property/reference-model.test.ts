import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import { createFactTables } from './pipelines/fact-tables.js'
import { type PipelinePlan, pipelinePlan, withoutRaces } from './pipelines/pipeline-plan.js'
import {
  chargesOf,
  countRequests,
  effectsOf,
  type Observed,
  observeTrial,
} from './pipelines/observe-trial.js'
import { type Ended, PlanTrial } from './pipelines/plan-trial.js'
import { asSeen, type Expected, type ExpectedEnd, referenceModel } from './pipelines/reference-model.js'
import { amountOf } from '../support/amounts.js'
import { assertProperty } from './support/assert-property.js'
import { jsonValue } from './support/json.js'

const RUNS = amountOf('runs')

/** Each case is a whole request of up to eight phases, whose calls use their own sockets. */
const PIPELINE_RUNS = Math.ceil(RUNS / 5)

/** Each case is two requests, a crash and a recovery. survival.test.ts has many more, with other faults. */
const CRASH_RUNS = Math.ceil(RUNS / 20)

/** A case that fails is run hundreds of times more while it is made smaller. */
const TIMEOUT_MS = 600_000 + RUNS * 100

/** Where in a run the engine dies, as a part of the run, so that the place stays the same when the plan gets smaller. */
const PLACES = 1_000
const place = fc.integer({ min: 0, max: PLACES - 1 })

const database = await TestDatabase.create()
await createFactTables(database.admin, database.businessSchema)
afterAll(() => database.drop())
const pool = database.pool({ max: 2 })

/** Puts both values into the message, which is all that is shown of a counterexample. */
function expectSame(what: string, seen: unknown, wanted: unknown): void {
  expect(seen, `${what}: ${JSON.stringify(seen)} instead of ${JSON.stringify(wanted)}`).toEqual(wanted)
}

/** Expects that what is committed is exactly what the model has for the key's recovery point. */
function expectConsistent({ key, snapshot }: Observed, { snapshots }: Expected): void {
  const { point } = snapshot
  const at = snapshots.findIndex((one) => one.point === point)
  expectSame(`at ${point}`, snapshot, asSeen(snapshots[at], snapshot))
  const trail = snapshots.slice(1, at + 1).map((one) => ({ point: one.point, skipped: one.skipped }))
  expectSame(`trail at ${point}`, key?.trail ?? [], trail)
}

/** Expects that the request ended as given, that its client was told so, and that nothing else is left, here or at the provider. */
async function expectEnd(
  trial: PlanTrial,
  { outcome }: Ended,
  end: ExpectedEnd,
  expected: Expected,
): Promise<void> {
  const observed = await observeTrial(trial)
  expectConsistent(observed, expected)
  expectSame('status', observed.key?.status, end.status)
  if (end.status === 'stuck') {
    const { point } = observed.snapshot
    expect(outcome).toMatchObject({ type: 'stuck', reason: end.reason, recoveryPoint: point })
    expect(nextAfter(trial.plan, point)).toBe(end.phase)
  } else {
    if (outcome.type === 'stuck')
      throw new Error(`stuck after ${outcome.recoveryPoint}, for ${outcome.reason}`)
    const { status, headers, body } = outcome.response
    expectSame('response', { status, headers, body: body.toString() }, end.response)
    expect(observed.snapshot.point).toBe('finished')
    expect((await trial.run(pool)).outcome).toEqual({ ...outcome, type: 'replayed' })
  }
  await expectCharges(trial, observed, end)
}

/** Expects one charge for each settled phase, under the key and id that the engine knows, and at most one in doubt. */
async function expectCharges(trial: PlanTrial, observed: Observed, end: ExpectedEnd): Promise<void> {
  const charges = await chargesOf(trial)
  const inDoubt = end.status === 'stuck' ? end.phase : null
  const certain = charges.filter(({ phase }) => phase !== inDoubt)
  const charged = certain.map(({ phase }) => phase)
  expectSame('charges', charged, observed.snapshot.effects)
  expect(charges.length - certain.length).toBeLessThanOrEqual(1)
  const guarantees = new Map(
    trial.plan.phases.flatMap((phase) => (phase.kind === 'foreign' ? [[phase.name, phase.guarantee]] : [])),
  )
  for (const { phase, provider_key, reference } of await effectsOf(trial)) {
    const charge = charges.find((one) => one.phase === phase)
    expect(reference).toBe(charge?.id)
    expect(charge?.key).toBe(guarantees.get(phase) === 'at_most_once' ? null : provider_key)
    // Only a provider that deduplicates may be sent the same charge again.
    if (guarantees.get(phase) !== 'keyed') expect(await countRequests(trial, phase)).toBe(1)
  }
}

function nextAfter({ phases }: PipelinePlan, point: string): string | undefined {
  return phases[phases.findIndex(({ name }) => name === point) + 1]?.name
}

/** A call that was declared and not settled is not made again if the provider cannot say what became of it. */
function endAfterCrash(plan: PipelinePlan, { key }: Observed, expected: Expected): ExpectedEnd {
  const declared = key?.status === 'running' && key.intent?.kind === 'calling' ? key.intent.phase : null
  const phase = plan.phases.find(({ name }) => name === declared)
  if (phase?.kind !== 'foreign' || phase.guarantee !== 'at_most_once') return expected.end
  expect(expected.mayBeStuckAt).toContain(phase.name)
  return { status: 'stuck', reason: 'unknown_outcome', phase: phase.name }
}

test(
  'any pipeline ends as the reference model says, and its client is told what went wrong',
  () =>
    assertProperty(
      fc.asyncProperty(pipelinePlan, jsonValue, async (plan, input) => {
        const expected = referenceModel(plan, input)
        const trial = new PlanTrial(database, plan, input)
        const ended = await trial.run(pool)
        expectSame('setbacks', ended.setbacks, expected.setbacks)
        await expectEnd(trial, ended, expected.end, expected)
      }),
      PIPELINE_RUNS,
    ),
  TIMEOUT_MS,
)

test(
  'an engine that dies anywhere in a pipeline leaves a prefix of whole phases, and another engine ends it in the same way',
  () =>
    assertProperty(
      fc.asyncProperty(pipelinePlan.map(withoutRaces), jsonValue, place, async (plan, input, at) => {
        const expected = referenceModel(plan, input)
        const { positions } = await new PlanTrial(database, plan, input).runWatched(pool)
        const trial = new PlanTrial(database, plan, input)
        await trial.dieAt(positions[Math.floor((at * positions.length) / PLACES)] ?? '')
        const left = await observeTrial(trial)
        expectConsistent(left, expected)
        await expectEnd(trial, await trial.run(pool), endAfterCrash(plan, left, expected), expected)
      }),
      CRASH_RUNS,
    ),
  TIMEOUT_MS,
)
