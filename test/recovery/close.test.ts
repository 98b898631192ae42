import { randomUUID } from 'node:crypto'
import { type Engine, type EngineOptions, type Outcome, type Pipeline, respond } from '@pawl/core'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { Provider } from '../support/provider.js'
import {
  createEngine,
  createRideOf,
  createRideTables,
  type Database,
  pipeline,
  type RideInput,
} from '../support/rides.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

/** What close() may take beyond its timeoutMs, by its own limits, and what a busy machine may add. */
const BOUND_MS = 2_000 + 3_000

type Ride = Pipeline<Database, RideInput>

let database: TestDatabase
let provider: Provider
let pool: pg.Pool
let application: string
let key: string

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
  application = `close-${randomUUID()}`
  pool = database.pool({ application_name: application })
  key = randomUUID()
})
afterEach(() => database.drop())

function open(ride: Ride, options: Partial<EngineOptions<Database>> = {}): Engine<Database> {
  return createEngine({ pool, pipelines: [ride], schema: database.schema, ...options })
}
const execute = (engine: Engine<Database>, ride: Ride, under = key): Promise<Outcome> =>
  engine.execute(ride, { scope: 's', key: under, input: { amount: 5 } })

/** The state of the key, by the database's clock. */
async function keyState(): Promise<unknown> {
  const [row] = await database.rows(
    `SELECT status, recovery_point, attempts, retries, lease_until IS NULL AS free,
            coalesce(lease_until > clock_timestamp(), false) AS leased, run_after <= clock_timestamp() AS due
       FROM pawl.idempotency_keys WHERE key = $1`,
    [key],
  )
  return row
}

/** A ride whose call ignores its signal. */
const rideThatIgnoresItsSignal = (guarantee: 'keyed' | 'at_most_once' = 'keyed') =>
  pipeline<RideInput>({ name: 'deaf', version: 1 })
    .foreign('charged', {
      call: ({ input, idempotencyKey }) => provider.charge(input.amount, { idempotencyKey }),
      settle: ({ result }) => ({ chargeId: result.id }),
      guarantee,
    })
    .finish(({ state }) => respond(201, { charge: state.chargeId }))

test('running requests finish, and new ones are turned away', async () => {
  const ride = createRideOf(provider)
  const engine = open(ride)
  await provider.willMeet('hold_then_execute')
  const running = execute(engine, ride)
  await provider.arrived()
  const closing = engine.close()
  for (const refused of [await execute(engine, ride, randomUUID()), await engine.resume(randomUUID())]) {
    expect(refused).toMatchObject({ type: 'unavailable', error: { code: 'PAWL_CLOSING' } })
  }
  await provider.letGo()
  expect(await running).toMatchObject({ type: 'completed' })
  await closing
  expect(await database.rows('SELECT key FROM pawl.idempotency_keys')).toEqual([{ key }])
  expect(await execute(engine, ride)).toMatchObject({ type: 'unavailable', error: { code: 'PAWL_CLOSING' } })
})

test('a call that does not end in time is aborted, and another engine can have its key at once', async () => {
  const ride = createRideOf(provider)
  const engine = open(ride)
  await provider.willMeet('executes_then_silent')
  const running = execute(engine, ride)
  await provider.arrived()
  await engine.close({ timeoutMs: 1 })
  expect(await running).toMatchObject({
    type: 'retry_later',
    reason: 'closing',
    retryAfterMs: 0,
    recoveryPoint: 'ride_created',
    error: { code: 'PAWL_CLOSING' },
  })
  // As if it had not been granted, since a deploy must not bring a key nearer to its caps.
  const given = { status: 'running', recovery_point: 'ride_created', attempts: 0, retries: 0 }
  expect(await keyState()).toEqual({ ...given, free: true, leased: false, due: true })
  const next = open(ride)
  expect(await execute(next, ride)).toMatchObject({ type: 'completed' })
  expect(await provider.ledger()).toHaveLength(1)
  await next.close()
})

test('a phase may end its transaction, and the key is given back at the recovery point that it reached', async () => {
  const [entered, calling, leave] = [gate(), gate(), gate()]
  const ride = pipeline<RideInput>({ name: 'slow', version: 1 })
    .local('noted', async ({ tx }) => {
      await tx.insertInto('audit').values({ what: 'noted' }).execute()
      entered.open()
      await leave.opened
    })
    .finish(() => respond(200))
  // Its signal shows when the engine has waited long enough.
  const bystander = pipeline<RideInput>({ name: 'bystander', version: 1 })
    .foreign('called', {
      call: ({ signal }) =>
        new Promise<null>((_, reject) => {
          signal.addEventListener('abort', () => {
            leave.open()
            reject(signal.reason as Error)
          })
          calling.open()
        }),
    })
    .finish(() => respond(200))
  const engine = open(ride, { pipelines: [ride, bystander] })
  const running = execute(engine, ride)
  const called = execute(engine, bystander, randomUUID())
  await Promise.all([entered.opened, calling.opened])
  const closing = engine.close({ timeoutMs: 0 })
  expect(await called).toMatchObject({ type: 'retry_later', reason: 'closing' })
  expect(await running).toMatchObject({ type: 'retry_later', reason: 'closing', recoveryPoint: 'noted' })
  await closing
  expect(await database.rows('SELECT what FROM audit')).toEqual([{ what: 'noted' }])
  expect(await keyState()).toMatchObject({ recovery_point: 'noted', free: true, due: true })
})

describe('a call that ignores its signal', () => {
  test('does not hold close() up, and its key is not given away before the call ends', async () => {
    const ride = rideThatIgnoresItsSignal()
    const engine = open(ride)
    await provider.willMeet('hold_then_execute')
    const running = execute(engine, ride)
    await provider.arrived()
    await database.rows('UPDATE pawl.idempotency_keys SET attempts = 5')
    const before = performance.now()
    await engine.close({ timeoutMs: 1 })
    expect(performance.now() - before).toBeLessThan(BOUND_MS)
    expect(await running).toMatchObject({ type: 'retry_later', reason: 'closing' })
    expect(await keyState()).toMatchObject({ status: 'running', free: false, leased: true, attempts: 4 })

    const next = open(ride)
    expect(await execute(next, ride)).toMatchObject({ type: 'in_flight' })
    await provider.letGo()
    // The key is given back with its result, which the next engine settles without a second call.
    const sql = `SELECT lease_until IS NULL AS free FROM pawl.idempotency_keys, pg_sleep(0.005) WHERE key = $1`
    while (!(await database.rows<{ free: boolean }>(sql, [key]))[0]?.free);
    expect(await keyState()).toMatchObject({ attempts: 4, due: true })
    expect(await execute(next, ride)).toMatchObject({ type: 'completed' })
    expect(await provider.requests()).toHaveLength(1)
    await next.close()
  })

  test('leaves its key to a person if it must not be repeated', async () => {
    const ride = rideThatIgnoresItsSignal('at_most_once')
    const engine = open(ride)
    await provider.willMeet('silent')
    const running = execute(engine, ride)
    await provider.arrived()
    await engine.close({ timeoutMs: 1 })
    expect(await running).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
  })

  test('leaves no connection behind, even though its lease was being renewed', async () => {
    const ride = rideThatIgnoresItsSignal()
    const engine = open(ride, { defaults: { leaseMs: 200 } })
    await provider.willMeet('silent')
    const running = execute(engine, ride)
    await provider.arrived()
    // There is one connection of the pool, and the one for renewals.
    const sql = `SELECT count(*)::int AS backends FROM pg_stat_activity, pg_sleep(0.005) WHERE application_name = $1`
    while ((await database.rows<{ backends: number }>(sql, [application]))[0]?.backends !== 2);
    await engine.close({ timeoutMs: 1 })
    await running
    await pool.end()
    await database.backendsGone(application)
  })
})

test('a connection for renewals that opens after close() is ended', async () => {
  const [connecting, proceed] = [gate(), gate()]
  const ride = rideThatIgnoresItsSignal()
  // The pool connects with a callback; only the connection for renewals is awaited.
  class LateClient extends pg.Client {
    override connect(): Promise<this>
    override connect(callback: (error: Error) => void): void
    override connect(callback?: (error: Error) => void): Promise<this> | void {
      if (callback !== undefined) return super.connect(callback)
      connecting.open()
      return proceed.opened.then(() => super.connect()).then(() => this)
    }
  }
  Object.assign(pool, { Client: LateClient })
  const engine = open(ride, { defaults: { leaseMs: 200 } })
  await provider.willMeet('silent')
  const running = execute(engine, ride)
  await provider.arrived()
  await connecting.opened
  await engine.close({ timeoutMs: 1 })
  proceed.open()
  await running
  await pool.end()
  await database.backendsGone(application)
})

test('close() may be called again, while it closes or afterwards, and closes once', async () => {
  const ride = createRideOf(provider)
  const engine = open(ride)
  await provider.willMeet('hold_then_execute')
  const running = execute(engine, ride)
  await provider.arrived()
  const closings = [engine.close(), engine.close({ timeoutMs: 0 })]
  await provider.letGo()
  await Promise.all(closings)
  expect(await running).toMatchObject({ type: 'completed' })
  await engine.close()
})

test("the pool stays open and whole, without the engine's listeners", async () => {
  const listeners = () => pool.eventNames().map((name) => [name, pool.listenerCount(name)])
  const before = listeners()
  const ride = createRideOf(provider)
  const engines = [open(ride), open(ride)]
  await Promise.all(engines.map((engine) => execute(engine, ride, randomUUID())))
  expect(listeners()).not.toEqual(before)
  await Promise.all(engines.map((engine) => engine.close()))
  expect(listeners()).toEqual(before)
  expect(pool.idleCount).toBe(pool.totalCount)
  expect((await pool.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
})

test('a call that ignores its signal, but ends in time, has its result saved', async () => {
  const [entered, ended] = [gate(), gate()]
  const ride = pipeline<RideInput>({ name: 'deaf', version: 1 })
    .foreign('charged', {
      call: async () => {
        entered.open()
        await ended.opened
        return { id: 'ch_1' }
      },
    })
    .finish(() => respond(201))
  const engine = open(ride)
  const running = execute(engine, ride)
  await entered.opened
  // The call ends a moment after its request was answered.
  void running.then(() => setTimeout(ended.open, 100))
  await engine.close({ timeoutMs: 1 })
  expect(await running).toMatchObject({ type: 'retry_later', reason: 'closing' })
  expect(await database.rows('SELECT intent FROM pawl.idempotency_keys')).toMatchObject([
    { intent: { kind: 'called', result: { id: 'ch_1' } } },
  ])
})
