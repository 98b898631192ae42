import { type Engine, type PipelineSettings, respond, retryLater } from '@pawl/core'
import { afterEach, beforeEach, expect, inject, test, onTestFinished, vi } from 'vitest'
import { dieAt } from '../support/die-at.js'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables, type Database, pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
})
afterEach(() => database.drop())

const REQUEST = { scope: 's', key: 'k', input: null }

/** A pipeline whose second phase always does the same, on a new engine each time. */
function repeating(body: () => unknown, settings: PipelineSettings = {}) {
  let runs = 0
  const target = pipeline({ name: 'repeating', version: 1, ...settings })
    .local('first', () => undefined)
    .finish(() => {
      runs++
      return body() as ReturnType<typeof respond>
    })
  const execute = async () => {
    const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
    const outcome = await engine.execute(target, REQUEST)
    await engine.close()
    return outcome
  }
  return { execute, runs: () => runs }
}

interface Counters {
  readonly attempts: number
  readonly retries: number
  readonly rest_ms: number
  readonly status: string
  readonly stuck_reason: string | null
  readonly last_error: string | null
}

async function counters(): Promise<Counters> {
  const [row] = await database.rows<Counters>(
    `SELECT attempts, retries, extract(epoch FROM run_after - updated_at)::float * 1000 AS rest_ms, status,
            stuck_reason, last_error FROM pawl.idempotency_keys`,
  )
  if (row === undefined) throw new Error('no key')
  return row
}

test('a request that throws each time is stuck at the cap, and no automatic step touches it again', async () => {
  const stuck = hear('pawl:stuck')
  const { execute, runs } = repeating(
    () => {
      throw new TypeError('cannot read it')
    },
    { maxAttempts: 3 },
  )
  const types = []
  for (let n = 0; n < 10 && types.at(-1) !== 'stuck'; n++) types.push((await execute()).type)
  expect(types).toEqual([...types.slice(0, -1).map(() => 'retry_later'), 'stuck'])
  // The grant that reached the recovery point comes on top of those that began there.
  expect(runs()).toBe(4)
  expect(await counters()).toMatchObject({
    status: 'stuck',
    stuck_reason: 'attempts_exhausted',
    last_error: 'TypeError: cannot read it',
  })
  const before = await database.rows('SELECT * FROM pawl.idempotency_keys')
  expect(await execute()).toMatchObject({
    type: 'stuck',
    reason: 'attempts_exhausted',
    recoveryPoint: 'first',
  })
  expect(runs()).toBe(4)
  expect(await database.rows('SELECT * FROM pawl.idempotency_keys')).toEqual(before)
  expect(stuck.length).toBeGreaterThanOrEqual(1)
})

// Shows L1.
test('a request that kills its holder each time is stuck at the cap, before it kills another one', async () => {
  const provider = new Provider(inject('providerUrl'))
  const createRide = createRideOf(provider)
  const request = { scope: 's', key: 'k', input: { amount: 4 } }
  const options = { pipelines: [createRide], defaults: { maxAttempts: 3 } }
  for (let death = 1; death <= 3; death++) {
    const execute = (engine: Engine<Database>) => engine.execute(createRide, request)
    await dieAt(database, options, 'ride_created/query#1:after', execute)
    expect(await counters()).toMatchObject({ attempts: death, status: 'running' })
  }
  const engine = createEngine({ ...options, pool: database.pool(), schema: database.schema })
  expect(await engine.execute(createRide, request)).toMatchObject({
    type: 'stuck',
    reason: 'attempts_exhausted',
    recoveryPoint: 'started',
    lastError:
      "The last holder, which ran the key from 'started', did not give it back: its process died or froze.",
  })
  expect(await database.rows('SELECT * FROM rides')).toEqual([])
  await engine.close()
})

test('an advance resets the count of attempts', async () => {
  const failures = new Map([
    ['one', 2],
    ['two', 2],
  ])
  const failTwice = (phase: string) => () => {
    const left = failures.get(phase) ?? 0
    failures.set(phase, left - 1)
    if (left > 0) throw new Error(`${phase} failed`)
    return undefined
  }
  const target = pipeline({ name: 'advancing', version: 1, maxAttempts: 3 })
    .local('one', failTwice('one'))
    .local('two', failTwice('two'))
    .finish(() => respond(204))
  const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
  const types = []
  for (let n = 0; n < 5; n++) types.push((await engine.execute(target, REQUEST)).type)
  expect(types).toEqual(['retry_later', 'retry_later', 'retry_later', 'retry_later', 'completed'])
  await engine.close()
})

test('orderly retries are not capped by attempts, and their back-off grows, whichever engine runs them', async () => {
  const { execute, runs } = repeating(() => retryLater(new Error('busy')), { maxAttempts: 2 })
  // Full jitter draws from anywhere between nothing and the ceiling; here, it draws the middle.
  vi.spyOn(Math, 'random').mockReturnValue(0.5)
  onTestFinished(() => void vi.restoreAllMocks())
  for (let retry = 1; retry <= 6; retry++) {
    const outcome = await execute()
    if (outcome.type !== 'retry_later') throw new Error(`unexpected ${outcome.type}`)
    const { retries, attempts, rest_ms: restMs } = await counters()
    expect({ retries, attempts }).toEqual({ retries: retry, attempts: 0 })
    const ceilingMs = 500 * 2 ** (retry - 1)
    expect(Math.abs(restMs - ceilingMs / 2)).toBeLessThan(50)
    expect(Math.abs(outcome.retryAfterMs - restMs)).toBeLessThan(50)
  }
  expect(runs()).toBe(6)
})

test('a request older than maxAgeMs is stuck instead of being taken over', async () => {
  const { execute, runs } = repeating(() => retryLater(), { maxAgeMs: 3_600_000 })
  expect(await execute()).toMatchObject({ type: 'retry_later' })
  await database.rows(`UPDATE pawl.idempotency_keys SET created_at = created_at - interval '1 hour'`)
  expect(await execute()).toMatchObject({ type: 'stuck', reason: 'too_old', recoveryPoint: 'first' })
  expect(runs()).toBe(1)
})

test('a request that grows too old while it runs is stuck where it would have been given back', async () => {
  const { execute, runs } = repeating(() => retryLater(new Error('still busy')), { maxAgeMs: 1 })
  expect(await execute()).toMatchObject({ type: 'stuck', reason: 'too_old' })
  expect(runs()).toBe(1)
  expect(await counters()).toMatchObject({ status: 'stuck', last_error: 'Error: still busy' })
})

test('the retention of a finished key counts from its finish, not from its start', async () => {
  let ready = false
  const { execute } = repeating(() => (ready ? respond(204) : retryLater()), { retentionMs: 7_200_000 })
  await execute()
  await database.rows(`UPDATE pawl.idempotency_keys SET created_at = created_at - interval '5 hours'`)
  ready = true
  const outcome = await execute()
  if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
  const [row] = await database.rows<{ kept_s: number; expires_at: Date }>(
    `SELECT extract(epoch FROM expires_at - updated_at)::float AS kept_s, expires_at FROM pawl.idempotency_keys`,
  )
  expect(row?.kept_s).toBeCloseTo(7_200, 0)
  expect(outcome.expiresAt.getTime()).toBe(row?.expires_at.getTime())
  // It replays until it is deleted, even after it has expired.
  await database.rows(`UPDATE pawl.idempotency_keys SET expires_at = expires_at - interval '1 day'`)
  expect(await execute()).toMatchObject({ type: 'replayed' })
})
