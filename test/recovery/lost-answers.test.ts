import { randomUUID } from 'node:crypto'
import { absent, found, type PipelineSettings, respond, retryLater } from '@pawl/core'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables, pipeline } from '../support/rides.js'
import { expectWholePool, hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { expectOneWholeRide } from '../support/whole-ride.js'

let database: TestDatabase
let provider: Provider
let proxy: PostgresProxy
let application: string

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
  proxy = await PostgresProxy.start(database.url)
  application = `through_proxy_${randomUUID()}`
})
afterEach(async () => {
  await database.drop()
  await proxy.close()
})

/** A pool through the proxy. Without connectionTimeoutMillis, `pg` itself would wait for a half-open server for ever. */
function proxied() {
  return database.pool({
    connectionString: proxy.url,
    application_name: application,
    connectionTimeoutMillis: 1_000,
  })
}

const INSERT_KEY = 'ON CONFLICT (scope, key) DO NOTHING'
const TAKE_OVER_KEY = 'holder = $8::pg_catalog.uuid, lease_until'
const DECLARE_CALL = `'kind', 'calling'`
const SKIP_PHASE = 'SET recovery_point = $6, lease_until'
const GIVE_BACK_KEY = 'lease_until = CASE WHEN $5::boolean'
const MARK_STUCK = `status = 'stuck', stuck_reason = $5, lease_until`
const FAULTS = ['answer_lost', 'statement_lost'] as const

function startRide() {
  const pool = proxied()
  const createRide = createRideOf(provider)
  const engine = createEngine({ pool, pipelines: [createRide], schema: database.schema })
  const request = { scope: 'rider', key: randomUUID(), input: { amount: 700 } }
  return { pool, engine, execute: () => engine.execute(createRide, request) }
}

test.each(FAULTS)('a reservation with %s is still ours, and granted once', async (fault) => {
  const { pool, engine, execute } = startRide()
  const reserved = hear('pawl:reserved')
  const struck = proxy.armStatement(INSERT_KEY, fault)
  expect(await execute()).toMatchObject({ type: 'completed' })
  await struck
  expect(reserved).toMatchObject([{ fence: 1 }])
  await expectOneWholeRide(database, provider)
  await expectWholePool(pool, database, application)
  await engine.close()
})

test.each(FAULTS)('a take-over with %s is still ours, and granted once', async (fault) => {
  const { pool, engine, execute } = startRide()
  await provider.willMeet('refuse_500')
  expect(await execute()).toMatchObject({ type: 'retry_later' })
  const takenOver = hear('pawl:taken_over')
  const struck = proxy.armStatement(TAKE_OVER_KEY, fault)
  expect(await execute()).toMatchObject({ type: 'completed' })
  await struck
  expect(takenOver).toMatchObject([{ fence: 2, attempts: 1 }])
  await expectOneWholeRide(database, provider)
  await expectWholePool(pool, database, application)
  await engine.close()
})

test.each(FAULTS)(
  'a call whose declaration met %s is declared again and made once, without asking the provider',
  async (fault) => {
    let asked = 0
    const charge = pipeline<{ amount: number }>({ name: 'charge', version: 1 })
      .foreign('charged', {
        guarantee: 'queryable',
        call: ({ input, idempotencyKey }) => provider.charge(input.amount, { idempotencyKey }),
        reconcile: async ({ idempotencyKey }) => {
          asked++
          const known = await provider.find(idempotencyKey)
          return known === null ? absent() : found(known)
        },
      })
      .finish(() => respond(201))
    const pool = proxied()
    const engine = createEngine({ pool, pipelines: [charge], schema: database.schema })
    const struck = proxy.armStatement(DECLARE_CALL, fault)
    const request = { scope: 's', key: randomUUID(), input: { amount: 5 } }
    expect(await engine.execute(charge, request)).toMatchObject({ type: 'completed' })
    await struck
    expect(await provider.requests()).toHaveLength(1)
    expect(asked).toBe(0)
    await expectWholePool(pool, database, application)
    await engine.close()
  },
)

test.each(FAULTS)('a phase whose skipping met %s is skipped once', async (fault) => {
  const skipping = pipeline<{ amount: number }>({ name: 'skipping', version: 1 })
    .foreign('charged', {
      when: ({ input }) => input.amount > 0,
      call: ({ input, idempotencyKey }) => provider.charge(input.amount, { idempotencyKey }),
    })
    .finish(() => respond(204))
  const pool = proxied()
  const engine = createEngine({ pool, pipelines: [skipping], schema: database.schema })
  const committed = hear('pawl:phase_committed')
  const struck = proxy.armStatement(SKIP_PHASE, fault)
  expect(await engine.execute(skipping, { scope: 's', key: 'k', input: { amount: 0 } })).toMatchObject({
    type: 'completed',
  })
  await struck
  expect(committed).toMatchObject([{ phase: 'charged', skipped: true }])
  const view = await engine.inspect('s', 'k')
  expect(view?.trail.map(({ point, skipped }) => [point, skipped])).toEqual([
    ['charged', true],
    ['finished', false],
  ])
  expect(await provider.requests()).toEqual([])
  await expectWholePool(pool, database, application)
  await engine.close()
})

test.each(FAULTS)('a give-back with %s loses nothing but time', async (fault) => {
  const { pool, engine, execute } = startRide()
  await provider.willMeet('refuse_500')
  const struck = proxy.armStatement(GIVE_BACK_KEY, fault)
  expect(await execute()).toMatchObject({ type: 'retry_later', recoveryPoint: 'ride_created' })
  await struck
  if (fault === 'statement_lost') await database.expireLeases()
  expect(await execute()).toMatchObject({ type: 'completed' })
  await expectOneWholeRide(database, provider)
  await expectWholePool(pool, database, application)
  await engine.close()
})

test.each(FAULTS)('a give-back that saves a result is repeated after %s', async (fault) => {
  let isBroken = true
  const settling = pipeline<{ amount: number }>({ name: 'settling', version: 1, transactionRetries: 0 })
    .foreign('charged', {
      call: ({ input, idempotencyKey }) => provider.charge(input.amount, { idempotencyKey }),
      settle: ({ result }) => {
        if (isBroken) throw new Error('broken')
        return { chargeId: result.id }
      },
    })
    .finish(() => respond(201))
  const engine = createEngine({ pool: proxied(), pipelines: [settling], schema: database.schema })
  const request = { scope: 's', key: 'k', input: { amount: 7 } }
  const struck = proxy.armStatement(GIVE_BACK_KEY, fault)
  expect(await engine.execute(settling, request)).toMatchObject({ recoveryPoint: 'started' })
  await struck
  expect(await database.rows(`SELECT intent ->> 'kind' AS known FROM pawl.idempotency_keys`)).toEqual([
    { known: 'called' },
  ])
  isBroken = false
  expect(await engine.execute(settling, request)).toMatchObject({ type: 'completed' })
  expect(await provider.requests()).toHaveLength(1)
  await engine.close()
})

test('a give-back after a call that was not executed is repeated if its statement is lost', async () => {
  await provider.willMeet('refuse_500')
  const refused = pipeline<{ amount: number }>({ name: 'refused', version: 1 })
    .foreign('charged', {
      call: ({ input, idempotencyKey }) => provider.charge(input.amount, { idempotencyKey }),
      onError: ({ error }) => retryLater(error, { notExecuted: true }),
    })
    .finish(() => respond(201))
  const engine = createEngine({ pool: proxied(), pipelines: [refused], schema: database.schema })
  const struck = proxy.armStatement(GIVE_BACK_KEY, 'statement_lost')
  const request = { scope: 's', key: 'k', input: { amount: 7 } }
  expect(await engine.execute(refused, request)).toMatchObject({ type: 'retry_later' })
  await struck
  expect(await database.rows('SELECT effect_epoch FROM pawl.idempotency_keys')).toEqual([{ effect_epoch: 1 }])
  await engine.close()
})

test.each(FAULTS)('a key that is marked stuck with %s is stuck, and announced once', async (fault) => {
  const failing = pipeline({ name: 'failing', version: 1, maxAttempts: 1 }).finish(() => {
    throw new Error('broken')
  })
  const engine = createEngine({ pool: proxied(), pipelines: [failing], schema: database.schema })
  const request = { scope: 's', key: 'k', input: null }
  const struck = proxy.armStatement(MARK_STUCK, fault)
  const stuck = hear('pawl:stuck')
  const outcome = { type: 'stuck', reason: 'attempts_exhausted', lastError: 'Error: broken' }
  expect(await engine.execute(failing, request)).toMatchObject(outcome)
  await struck
  expect(await engine.execute(failing, request)).toMatchObject(outcome)
  expect(stuck).toMatchObject([{ reason: 'attempts_exhausted', fence: 1 }])
  await engine.close()
})

/** Short, so that we soon give up on a silent database. */
const IMPATIENT: PipelineSettings = {
  leaseMs: 2_000,
  statementTimeoutMs: 500,
  lockTimeoutMs: 250,
  idleTimeoutMs: 500,
  transactionRetries: 1,
}

test('a database that stalls before the reservation is unavailable, no user code runs, and the pool recovers', async () => {
  let ran = 0
  const noting = pipeline({ name: 'noting', version: 1 }).finish(() => {
    ran++
    return respond(204)
  })
  const pool = proxied()
  const options = { pool, pipelines: [noting], schema: database.schema, acquireTimeoutMs: 2_000 }
  const engine = createEngine({ ...options, defaults: IMPATIENT })
  await pool.query('SELECT 1')
  proxy.stall()
  const request = { scope: 's', key: 'k', input: null }
  expect(await engine.execute(noting, request)).toMatchObject({ type: 'unavailable' })
  expect(ran).toBe(0)
  proxy.flow()
  expect(await engine.execute(noting, request)).toMatchObject({ type: 'completed' })
  await expectWholePool(pool, database, application)
  await engine.close()
})

test.each(['before', 'after'] as const)(
  'a database that stalls inside a phase, %s its user code, leads to retry_later in bounded time, and a later attempt goes on',
  async (when) => {
    let stalls = true
    const stalling = pipeline({ name: 'stalling', version: 1 })
      .local('written', async ({ tx }) => {
        if (stalls && when === 'before') proxy.stall()
        await tx.insertInto('audit').values({ what: 'written' }).execute()
        if (stalls && when === 'after') proxy.stall()
      })
      .finish(() => retryLater())
    const pool = proxied()
    const options = { pool, pipelines: [stalling], schema: database.schema, acquireTimeoutMs: 2_000 }
    const engine = createEngine({ ...options, defaults: IMPATIENT })
    const request = { scope: 's', key: 'k', input: null }
    expect(await engine.execute(stalling, request)).toMatchObject({
      type: 'retry_later',
      reason: 'transient_error',
      recoveryPoint: 'started',
    })
    stalls = false
    proxy.flow()
    await database.backendsGone(application)
    await database.expireLeases()
    expect(await engine.execute(stalling, request)).toMatchObject({ recoveryPoint: 'written' })
    expect(await database.rows('SELECT what FROM audit')).toEqual([{ what: 'written' }])
    await expectWholePool(pool, database, application)
    await engine.close()
  },
)

test('a COMMIT whose fate cannot be learnt leads to retry_later, and a later execution goes on from what was committed', async () => {
  const pool = proxied()
  const createRide = createRideOf(provider)
  const options = { pool, pipelines: [createRide], schema: database.schema, acquireTimeoutMs: 2_000 }
  const engine = createEngine({ ...options, defaults: IMPATIENT })
  const request = { scope: 'rider', key: randomUUID(), input: { amount: 700 } }
  const struck = proxy.armCommit('answer_lost', 1).then(() => proxy.stall())
  expect(await engine.execute(createRide, request)).toMatchObject({
    type: 'retry_later',
    reason: 'transient_error',
  })
  await struck
  proxy.flow()
  await database.expireLeases()
  expect(await engine.execute(createRide, request)).toMatchObject({ type: 'completed' })
  await expectOneWholeRide(database, provider)
  expect(await provider.requests()).toHaveLength(1)
  await expectWholePool(pool, database, application)
  await engine.close()
})
