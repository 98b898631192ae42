import { absent, createBackground, type Engine, found, type Pipeline, respond, retryLater } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Provider } from '../support/provider.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables, type Database, pipeline, type RideInput } from '../support/rides.js'
import { ServerClock } from '../support/server-clock.js'
import { TestDatabase } from '../support/test-database.js'

const HOUR_MS = 3_600_000
const CALL_TIMEOUT_MS = 20_000
const QUIET_MS = 40_000

let database: TestDatabase
let clock: ServerClock
let engines: Engine<Database>[]
beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  clock = new ServerClock()
  engines = []
})
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.close()))
  await database.drop()
})

/** An engine of its own, as another process would have, on the server that is the primary just now. */
function process(trial: RideTrial): Engine<Database> {
  const engine = createEngine(trial.options(database.pool({ Client: clock.Client })))
  engines.push(engine)
  return engine
}

/** Lets that much time pass, by whichever clock wrote the row. */
async function pass(ms: number): Promise<void> {
  await database.rows(
    `UPDATE pawl.idempotency_keys
        SET lease_until = lease_until - $1 * interval '1 ms', run_after = run_after - $1 * interval '1 ms',
            updated_at = updated_at - $1 * interval '1 ms',
            intent = jsonb_set(intent::jsonb, '{deadlineMs}', to_jsonb((intent ->> 'deadlineMs')::numeric - $1))`,
    [ms],
  )
}

const queryableOf = (provider: Provider): Pipeline<Database, RideInput> =>
  pipeline<RideInput>({ name: 'asks', version: 1 })
    .foreign('charged', {
      guarantee: 'queryable',
      callTimeoutMs: CALL_TIMEOUT_MS,
      quietForMs: QUIET_MS,
      call: ({ input, idempotencyKey, signal }) => provider.charge(input.amount, { idempotencyKey, signal }),
      reconcile: async ({ idempotencyKey }) => {
        const charge = await provider.find(idempotencyKey)
        return charge === null ? absent() : found(charge)
      },
    })
    .finish(() => respond(201))

describe('a database clock that jumps ahead', () => {
  // Shows I2.
  test('at a failover does not make an absent call believed before its time has passed on the new server', async () => {
    const trial = new RideTrial(database, queryableOf)
    await trial.provider.willMeet('hold_then_execute')
    const running = trial.execute(process(trial))
    await trial.provider.arrived()
    clock.failOver(HOUR_MS)

    const pending = { type: 'retry_later', reason: 'outcome_pending' }
    const first = await trial.execute(process(trial))
    expect(first).toMatchObject(pending)
    if (first.type !== 'retry_later') throw first
    expect(first.retryAfterMs).toBeGreaterThan(CALL_TIMEOUT_MS + QUIET_MS - 1_000)
    expect(first.retryAfterMs).toBeLessThanOrEqual(CALL_TIMEOUT_MS + QUIET_MS)
    await pass(CALL_TIMEOUT_MS + QUIET_MS - 5_000)
    expect(await trial.execute(process(trial))).toMatchObject(pending)
    expect(await trial.provider.requests()).toHaveLength(1)

    await trial.provider.letGo()
    await running
    expect(await trial.execute(process(trial))).toMatchObject({ type: 'completed' })
    expect(await trial.provider.ledger()).toHaveLength(1)
  })

  test('at a failover lets a call that never arrived be made, once its time has passed on the new server', async () => {
    const trial = new RideTrial(database, queryableOf)
    await trial.dieAt('charged/call#1:before')
    clock.failOver(HOUR_MS)
    expect(await trial.execute(process(trial))).toMatchObject({ reason: 'outcome_pending' })
    expect(await trial.provider.requests()).toEqual([])
    await pass(CALL_TIMEOUT_MS + QUIET_MS)
    expect(await trial.execute(process(trial))).toMatchObject({ type: 'completed' })
    expect(await trial.provider.requests()).toHaveLength(1)
  })

  test('on one server makes the process that has asked before wait by its own clock as well', async () => {
    const trial = new RideTrial(database, queryableOf)
    await trial.dieAt('charged/call#1:before')
    await database.expireLeases()
    const engine = process(trial)
    expect(await trial.execute(engine)).toMatchObject({ reason: 'outcome_pending' })
    clock.jump(HOUR_MS)
    const second = await trial.execute(engine)
    expect(second).toMatchObject({ reason: 'outcome_pending' })
    if (second.type !== 'retry_later') throw second
    expect(second.retryAfterMs).toBeGreaterThan(QUIET_MS)
    expect(await trial.provider.requests()).toEqual([])
  })

  test('on one server makes the process that made the call wait by its own clock as well', async () => {
    const trial = new RideTrial(database, queryableOf)
    await trial.provider.willMeet('never_arrives')
    const engine = process(trial)
    expect(await trial.execute(engine)).toMatchObject({ type: 'retry_later', reason: 'transient_error' })
    clock.jump(HOUR_MS)
    expect(await trial.execute(engine)).toMatchObject({ reason: 'outcome_pending' })
    expect(await trial.provider.requests()).toHaveLength(1)
  })

  test('is told from time that passes: a call declared on this server counts as absent as soon as its time has passed', async () => {
    const trial = new RideTrial(database, queryableOf)
    await trial.dieAt('charged/call#1:before')
    await pass(CALL_TIMEOUT_MS + QUIET_MS)
    await database.expireLeases()
    expect(await trial.execute(process(trial))).toMatchObject({ type: 'completed' })
    expect(await trial.provider.requests()).toHaveLength(1)
  })
})

describe('a database clock that jumps back', () => {
  test("does not lengthen a dead holder's lease for a client, which gets the key", async () => {
    const trial = new RideTrial(database)
    await trial.dieAt('charge_created/call#1:before')
    clock.failOver(-HOUR_MS)
    expect(await trial.execute(process(trial))).toMatchObject({ type: 'completed' })
    expect(await trial.provider.ledger()).toHaveLength(1)
  })

  test("does not lengthen a dead holder's lease for the completer, which gets the key", async () => {
    const trial = new RideTrial(database)
    await trial.dieAt('charge_created/call#1:before')
    clock.failOver(-HOUR_MS)
    const { completer } = createBackground({ engine: process(trial), reaper: false })
    expect(await completer?.runOnce()).toMatchObject({ found: 1, completed: 1 })
  })

  test('does not lengthen a back-off that was set by the other clock', async () => {
    const once = { failed: false }
    const trial = new RideTrial(database, () =>
      pipeline<RideInput>({ name: 'backs-off', version: 1 }).finish(() => {
        if (once.failed) return respond(200)
        once.failed = true
        return retryLater(new Error('busy'), { afterMs: 1_000 })
      }),
    )
    await trial.execute(process(trial))
    clock.failOver(-HOUR_MS)
    const { completer } = createBackground({ engine: process(trial), reaper: false })
    expect(await completer?.runOnce()).toMatchObject({ found: 1, completed: 1 })
  })

  test('leaves a key at its caps to a person at once, not an hour later', async () => {
    const trial = new RideTrial(database, undefined, { defaults: { maxAttempts: 1 } })
    await trial.dieAt('ride_created/begin#1:before')
    clock.failOver(-HOUR_MS)
    expect(await trial.execute(process(trial))).toMatchObject({ type: 'stuck', reason: 'attempts_exhausted' })
  })

  test.each(['10 minutes', '20 hours'])(
    'is told from a long lease of another deployment, which is respected: %s',
    async (length) => {
      const trial = new RideTrial(database)
      await trial.dieAt('charge_created/call#1:before')
      await database.rows(
        `UPDATE pawl.idempotency_keys SET lease_until = clock_timestamp() + interval '${length}'`,
      )
      expect(await trial.execute(process(trial))).toMatchObject({ type: 'in_flight' })
      const { completer } = createBackground({ engine: process(trial), reaper: false })
      expect(await completer?.runOnce()).toMatchObject({ found: 0 })
    },
  )
})
