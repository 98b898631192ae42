import { type PawlMessages, subscribe } from '@pawl/core'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { engineThatFreezesAt } from '../support/crash.js'
import { tracesWithoutCrash } from '../support/ride-recovery.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideOf, createRideTables } from '../support/rides.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const pool = database.pool()
const cleanTraces = await tracesWithoutCrash(new RideTrial(database), pool)

let fencedOff: PawlMessages['pawl:fenced_off'][]
let unsubscribe: () => void
beforeEach(() => {
  fencedOff = []
  unsubscribe = subscribe('pawl:fenced_off', (message) => void fencedOff.push(message))
})
afterEach(() => unsubscribe())

/** Lets another engine take the unattended request over and finish it. */
async function takeOverAndFinish(trial: RideTrial) {
  await database.expireLeases()
  const engine = createEngine(trial.options(pool))
  const outcome = await trial.execute(engine)
  if (outcome.type !== 'completed') throw outcome
  await engine.close()
  return outcome
}

// Shows I5.
describe('a holder that wakes up after another has finished commits nothing', () => {
  test.each([
    ['ride_created', 'ride_created/advance_key#1:before'],
    ['charge_created', 'charge_created/query#1:before'],
    ['finished', 'finished/finish_key#1:before'],
  ])('frozen in the transaction of %s', async (phase, at) => {
    const trial = new RideTrial(database)
    const zombiePool = database.pool()
    const { engine, frozen, wake } = engineThatFreezesAt(trial.options(zombiePool), at)
    const zombie = trial.execute(engine)
    await frozen
    const finished = await takeOverAndFinish(trial)
    const rowBefore = await trial.row()
    wake()
    expect(await zombie).toEqual({ ...finished, type: 'replayed' })
    expect(fencedOff).toMatchObject([{ phase, fence: 1 }])
    expect(await trial.row()).toEqual(rowBefore)
    expect(await trial.traces(finished.response)).toEqual(cleanTraces)
    expect(zombiePool.idleCount).toBe(zombiePool.totalCount)
    await engine.close()
  })

  test('even if its transaction held rows that the other needs, because the server ends it first', async () => {
    const trial = new RideTrial(database)
    const zombieOptions = trial.options(database.pool(), { defaults: { idleTimeoutMs: 100 } })
    const { engine, frozen, wake } = engineThatFreezesAt(zombieOptions, 'charge_created/advance_key#1:before')
    const zombie = trial.execute(engine)
    await frozen
    const finished = await takeOverAndFinish(trial)
    wake()
    expect(await zombie).toEqual({ ...finished, type: 'replayed' })
    expect(fencedOff).toMatchObject([{ phase: 'charge_created', fence: 1 }])
    expect(await trial.traces(finished.response)).toEqual(cleanTraces)
    expect(await trial.provider.requests()).toHaveLength(2)
    await engine.close()
  })

  test('even between its UPDATE and its COMMIT, because the server ends it, and the lost COMMIT is settled', async () => {
    const trial = new RideTrial(database)
    const zombiePool = database.pool({ application_name: `zombie_${trial.key}` })
    const zombieOptions = trial.options(zombiePool, { defaults: { idleTimeoutMs: 100 } })
    const { engine, frozen, wake } = engineThatFreezesAt(zombieOptions, 'ride_created/commit#1:before')
    const zombie = trial.execute(engine)
    await frozen
    await database.backendsGone(`zombie_${trial.key}`)
    const finished = await takeOverAndFinish(trial)
    wake()
    expect(await zombie).toEqual({ ...finished, type: 'replayed' })
    expect(fencedOff).toMatchObject([{ phase: 'ride_created', fence: 1 }])
    expect(await trial.traces(finished.response)).toEqual(cleanTraces)
    await engine.close()
  })
})

test('a holder that wakes up while another runs is told so, and leaves it alone', async () => {
  const trial = new RideTrial(database)
  await trial.provider.willMeet('hold_then_execute')
  const { engine, frozen, wake } = engineThatFreezesAt(trial.options(), 'ride_created/advance_key#1:before')
  const zombie = trial.execute(engine)
  await frozen
  await database.expireLeases()
  const other = createEngine(trial.options(pool))
  const second = trial.execute(other)
  await trial.provider.arrived()
  wake()
  const outcome = await zombie
  expect(outcome).toMatchObject({ type: 'in_flight', fencedOff: true })
  expect(outcome.type === 'in_flight' && outcome.retryAfterMs > 0).toBe(true)
  expect(fencedOff).toMatchObject([{ phase: 'ride_created', fence: 1 }])
  await trial.provider.letGo()
  const finished = await second
  if (finished.type !== 'completed') throw finished
  expect(await trial.traces(finished.response)).toEqual(cleanTraces)
  await Promise.all([engine.close(), other.close()])
})

test('a holder that wakes up after its phase failed does not give back a key that is no longer its own', async () => {
  const trial = new RideTrial(database)
  await trial.provider.willMeet('refuse_500', 'hold_then_execute')
  const { engine, frozen, wake } = engineThatFreezesAt(trial.options(), 'give_back/give_back_key#1:before')
  const zombie = trial.execute(engine)
  await frozen
  await database.expireLeases()
  const other = createEngine(trial.options(pool))
  const second = trial.execute(other)
  await trial.provider.arrived(2)
  const rowBefore = await trial.row()
  wake()
  expect(await zombie).toMatchObject({ type: 'in_flight', fencedOff: true })
  expect(rowBefore).toMatchObject({ fence: '2', lease_until: expect.any(Date) as Date })
  expect(await trial.row()).toEqual(rowBefore)
  expect(fencedOff).toMatchObject([{ phase: 'charge_created', fence: 1 }])
  await trial.provider.letGo()
  const finished = await second
  if (finished.type !== 'completed') throw finished
  expect(await trial.traces(finished.response)).toEqual(cleanTraces)
  await Promise.all([engine.close(), other.close()])
})

describe('a renewal that finds another holder aborts the call and drops its result', () => {
  test.each([
    ['a call that heeds its signal', true],
    ['a call that ignores its signal', false],
  ])('%s', async (_, heeds) => {
    const signals: AbortSignal[] = []
    const trial = new RideTrial(database, (provider) => {
      const charge = provider.charge.bind(provider)
      provider.charge = (amount, given) => {
        const { signal, ...unsignalled } = given ?? {}
        if (signal !== undefined) signals.push(signal)
        return charge(amount, heeds ? given : unsignalled)
      }
      return createRideOf(provider)
    })
    await trial.provider.willMeet('hold_then_execute')
    // The lease is short, so that the real timer fires; freezing keeps it from being renewed before the other has come.
    const zombieOptions = trial.options(database.pool(), { defaults: { leaseMs: 600 } })
    const { engine, frozen, wake } = engineThatFreezesAt(zombieOptions, 'renewal/renew_leases#1:before')
    const zombie = trial.execute(engine)
    await trial.provider.arrived()
    await frozen
    const finished = await takeOverAndFinish(trial)
    const [signal] = signals
    const aborted = new Promise((resolve) => signal?.addEventListener('abort', resolve))
    wake()
    await aborted
    expect(signal?.reason).toMatchObject({ code: 'PAWL_LEASE_LOST' })
    expect(await zombie).toEqual({ ...finished, type: 'replayed' })
    expect(fencedOff).toMatchObject([{ phase: 'charge_created', fence: 1 }])
    await trial.provider.letGo()
    expect(await trial.traces(finished.response)).toEqual(cleanTraces)
    await engine.close()
  })
})

describe('a process frozen past its lease renews it before it sends', () => {
  const LEASE_MS = 400
  const beforeCall = 'ride_created/commit#1:after'

  async function freezePastLease(trial: RideTrial) {
    const options = trial.options(database.pool(), { defaults: { leaseMs: LEASE_MS } })
    const { engine, stops, passed } = engineWithStops(options, beforeCall)
    const [stop] = stops
    const execution = trial.execute(engine)
    await stop.reached
    // The lease is over by the database's clock, and more than half of it by the process's own.
    await database.rows('SELECT pg_sleep($1)', [(LEASE_MS + 50) / 1_000])
    return { engine, execution, passed, wake: stop.go }
  }

  test('and does not send if another has the key', async () => {
    const trial = new RideTrial(database)
    const { engine, execution, passed, wake } = await freezePastLease(trial)
    const other = createEngine(trial.options())
    const finished = await trial.execute(other)
    if (finished.type !== 'completed') throw finished
    wake()
    expect(await execution).toEqual({ ...finished, type: 'replayed' })
    expect(passed).not.toContain('charge_created/call#1:before')
    expect(await trial.provider.requests()).toHaveLength(1)
    expect(await trial.traces(finished.response)).toEqual(cleanTraces)
    await Promise.all([engine.close(), other.close()])
  })

  test('and does not send if a lock keeps it from renewing', async () => {
    const trial = new RideTrial(database)
    const { engine, execution, passed, wake } = await freezePastLease(trial)
    const locker = await database.admin.connect()
    await locker.query('BEGIN')
    await locker.query(`SELECT FROM ${database.schema}.idempotency_keys WHERE scope = $1 FOR UPDATE`, [
      trial.scope,
    ])
    wake()
    expect(await execution).toMatchObject({ type: 'retry_later', error: { code: 'PAWL_LEASE_LOST' } })
    await locker.query('ROLLBACK')
    locker.release()
    expect(passed).not.toContain('charge_created/call#1:before')
    expect(await trial.provider.requests()).toEqual([])
    await engine.close()
  })

  test('and sends, under the renewed lease, if nobody has taken the key', async () => {
    const trial = new RideTrial(database)
    await trial.provider.willMeet('hold_then_execute')
    const { engine, execution, passed, wake } = await freezePastLease(trial)
    wake()
    await trial.provider.arrived()
    expect(passed.indexOf('charge_created/renew_leases#1:after')).toBeGreaterThan(passed.indexOf(beforeCall))
    expect((await engine.inspect(trial.scope, trial.key))?.lease?.live).toBe(true)
    await trial.provider.letGo()
    const finished = await execution
    if (finished.type !== 'completed') throw finished
    expect(await trial.traces(finished.response)).toEqual(cleanTraces)
    await engine.close()
  })
})
