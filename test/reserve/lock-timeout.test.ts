import { randomUUID } from 'node:crypto'
import { subscribe } from '@pawl/core'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

/** Every lock of the framework is waited for a quarter of this. */
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

/** Runs work while another session holds a lock that it lets go of only afterwards. */
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

test('a reservation that meets an uncommitted one answers in_flight while that is still open', async () => {
  const { engine, execute } = createTestEngine()
  const insert = `INSERT INTO pawl.idempotency_keys
      (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder)
    VALUES ('rider', $1, 'create-ride', 1, repeat('0', 16), sha256(''), 1, '{}', gen_random_uuid())`
  expect(await whileLocked(insert, [key], execute)).toMatchObject({ type: 'in_flight' })
  expect(await provider.requests()).toEqual([])
  expect(await execute()).toMatchObject({ type: 'completed' })
  await engine.close()
})

test('a phase whose key is locked by another session gives up in bounded time, and a retry goes on', async () => {
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
  // Giving it back met the lock as well: the lease runs out instead.
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

test('duplicates of a key that is locked wait for nothing', async () => {
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
