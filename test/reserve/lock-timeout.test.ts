import { randomUUID } from 'node:crypto'
import { respond, subscribe } from '@pawl/core'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

/** The framework waits a quarter of this for any lock. */
const LEASE_MS = 1_000

let database: TestDatabase
let provider: Provider
let key: string

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
  key = randomUUID()
})
afterEach(() => database.drop())

function createTestEngine() {
  const createRide = createRideOf(provider)
  const options = { pool: database.pool(), pipelines: [createRide], schema: database.schema }
  const engine = createEngine({ ...options, defaults: { leaseMs: LEASE_MS, transactionRetries: 1 } })
  const execute = () => engine.execute(createRide, { scope: 'rider', key, input: { amount: 5 } })
  return { engine, execute }
}

/** Runs work while another session holds a lock, which it lets go of only afterwards. */
async function whileLocked<T>(lock: string, values: unknown[], work: () => Promise<T>): Promise<T> {
  const session = await database.admin.connect()
  try {
    await session.query('BEGIN')
    await session.query(lock.replaceAll('pawl.', `${database.schema}.`), values)
    return await work()
  } finally {
    await session.query('ROLLBACK')
    session.release()
  }
}

test('a reservation that meets an uncommitted one answers in_flight while the other transaction is still open', async () => {
  const { engine, execute } = createTestEngine()
  const insert = `INSERT INTO pawl.idempotency_keys
      (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder)
    VALUES ('rider', $1, 'create-ride', 1, repeat('0', 16), sha256(''), 1, '{}', gen_random_uuid())`
  expect(await whileLocked(insert, [key], execute)).toMatchObject({ type: 'in_flight' })
  expect(await provider.requests()).toEqual([])
  expect(await execute()).toMatchObject({ type: 'completed' })
  await engine.close()
})

test('a phase whose key is locked by another session gives up in bounded time, and a retry goes on from there', async () => {
  const { engine, execute } = createTestEngine()
  await provider.willMeet('hold_then_execute')
  const first = execute()
  await provider.arrived()
  const outcome = await whileLocked(
    'SELECT 1 FROM pawl.idempotency_keys WHERE key = $1 FOR UPDATE',
    [key],
    async () => {
      await provider.letGo()
      return first
    },
  )
  // Giving the key back met the lock as well, so its lease runs out instead.
  expect(outcome).toMatchObject({
    type: 'retry_later',
    reason: 'transient_error',
    recoveryPoint: 'ride_created',
  })
  await database.expireLeases()
  expect(await execute()).toMatchObject({ type: 'completed' })
  expect(await provider.ledger()).toHaveLength(1)
  await engine.close()
})

test('a request that cannot give its key back asks its client to wait for the whole lease', async () => {
  const locker = await database.admin.connect()
  const refused = pipeline<null>({ name: 'refused', version: 1, leaseMs: LEASE_MS })
    .foreign('called', {
      call: async () => {
        await locker.query('BEGIN')
        await locker.query(`SELECT FROM ${database.schema}.idempotency_keys FOR UPDATE`)
        throw new Error('refused')
      },
    })
    .finish(() => respond(204))
  const engine = createEngine({ pool: database.pool(), pipelines: [refused], schema: database.schema })
  const outcome = await engine.execute(refused, { scope: 'rider', key, input: null })
  await locker.query('ROLLBACK')
  locker.release()
  if (outcome.type !== 'retry_later') throw outcome
  // The first back-off is shorter than this.
  expect(outcome.retryAfterMs).toBeGreaterThanOrEqual(LEASE_MS)
  await engine.close()
})

test('duplicates of a locked key do not wait at all', async () => {
  const { engine, execute } = createTestEngine()
  await provider.willMeet('refuse_500')
  expect(await execute()).toMatchObject({ type: 'retry_later' })
  const retried: unknown[] = []
  const stop = subscribe('pawl:in_flight', (message) => retried.push(message))
  const locked = await whileLocked(
    'SELECT 1 FROM pawl.idempotency_keys WHERE key = $1 FOR UPDATE',
    [key],
    () => Promise.all(Array.from({ length: 50 }, execute)),
  )
  stop()
  expect(new Set(locked.map((outcome) => outcome.type))).toEqual(new Set(['in_flight']))
  expect(retried).toHaveLength(50)
  expect(await execute()).toMatchObject({ type: 'completed' })
  await engine.close()
})
