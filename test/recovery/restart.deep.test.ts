import { randomUUID } from 'node:crypto'
import type { Engine, Outcome, Pipeline, StoredResponse } from '@pawl/core'
import { type DevPostgres, startPostgres } from '@pawl/dev-postgres'
import type pg from 'pg'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { Provider } from '../support/provider.js'
import {
  createEngine,
  createRideOf,
  createRideTables,
  type Database,
  type RideInput,
} from '../support/rides.js'
import { expectWholePool } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const REQUESTS = 50
/** A request needs one retry for what it lost, and perhaps another for a connection that breaks late. */
const RETRY_ROUNDS = 5

// It has a server of its own, since the one that other tests use must not go away.
let postgres: DevPostgres
let database: TestDatabase
let provider: Provider
let pool: pg.Pool
let application: string
let rejections: unknown[]
let keys: string[]
const onRejection = (reason: unknown) => void rejections.push(reason)

beforeEach(async () => {
  rejections = []
  process.on('unhandledRejection', onRejection)
  postgres = await startPostgres()
  database = await TestDatabase.createNew(postgres.url)
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
  keys = Array.from({ length: REQUESTS }, () => randomUUID())
  application = `restart-${randomUUID()}`
  pool = database.pool({ application_name: application })
})
afterEach(async () => {
  process.off('unhandledRejection', onRejection)
  await database.drop()
  await postgres.stop()
})

type Ride = Pipeline<Database, RideInput>
const executeAll = (engine: Engine<Database>, ride: Ride): Promise<Outcome[]> =>
  Promise.all(keys.map((key, amount) => engine.execute(ride, { scope: 's', key, input: { amount } })))

/** Sends all requests again until each has its response, as clients do. */
async function retryAll(engine: Engine<Database>, ride: Ride): Promise<StoredResponse[]> {
  for (let round = 0; round < RETRY_ROUNDS; round++) {
    await database.expireLeases()
    const outcomes = await executeAll(engine, ride)
    const responses = outcomes.flatMap((outcome) =>
      outcome.type === 'completed' || outcome.type === 'replayed' ? [outcome.response] : [],
    )
    if (responses.length === REQUESTS) return responses
  }
  throw new Error(`not every request had a response after ${RETRY_ROUNDS} retries`)
}

async function expectEachOnce(): Promise<void> {
  const ledger = await provider.ledger()
  expect(ledger.map(({ amount }) => amount).toSorted((a, b) => a - b)).toEqual([...keys.keys()])
  const rides = await database.rows<{ amount: number; charge_id: string }>(
    'SELECT amount, charge_id FROM rides ORDER BY amount',
  )
  const charges = new Map(ledger.map(({ amount, id }) => [amount, id]))
  expect(rides).toEqual([...keys.keys()].map((amount) => ({ amount, charge_id: charges.get(amount) })))
  expect(
    await database.rows(`SELECT (SELECT count(*)::int FROM pawl.idempotency_keys WHERE status = 'finished') AS finished,
                                (SELECT count(*)::int FROM pawl.idempotency_keys) AS keys,
                                (SELECT count(*)::int FROM pawl.effects) AS effects,
                                (SELECT count(*)::int FROM pawl.staged_jobs) AS jobs`),
  ).toEqual([{ finished: REQUESTS, keys: REQUESTS, effects: REQUESTS, jobs: REQUESTS }])
}

async function expectUnharmed(engine: Engine<Database>): Promise<void> {
  expect(rejections).toEqual([])
  await expectWholePool(pool, database, application)
  await engine.close()
  await pool.end()
  await database.backendsGone(application)
}

/** Sends all requests, and waits until they are at the provider, which holds them. */
async function underWay(engine: Engine<Database>, ride: Ride): Promise<{ outcomes: Promise<Outcome[]> }> {
  await provider.willMeet(...keys.map(() => 'hold_then_execute' as const))
  const outcomes = executeAll(engine, ride)
  await provider.arrived(REQUESTS)
  return { outcomes }
}

// Shows I14.
test('requests whose calls end while PostgreSQL is down all get their response by a retry', async () => {
  const ride = createRideOf(provider)
  const engine = createEngine({ pool, pipelines: [ride], schema: database.schema })
  const { outcomes } = await underWay(engine, ride)
  await postgres.kill()
  await provider.letGo()
  for (const outcome of await outcomes) {
    expect(outcome).toMatchObject({
      type: 'retry_later',
      reason: 'transient_error',
      recoveryPoint: 'ride_created',
    })
  }
  const away = await engine.execute(ride, { scope: 's', key: 'new', input: { amount: 1 } })
  expect(away).toMatchObject({ type: 'unavailable', error: { code: 'PAWL_NO_CONNECTION' } })

  await postgres.restart()
  const responses = await retryAll(engine, ride)
  expect(await retryAll(engine, ride)).toEqual(responses)
  await expectEachOnce()
  await expectUnharmed(engine)
})

test('calls that end after PostgreSQL came back are settled on new connections', async () => {
  const ride = createRideOf(provider)
  // Short, so that renewals meet the restart as well.
  const defaults = { leaseMs: 1_000 }
  const engine = createEngine({ pool, pipelines: [ride], schema: database.schema, defaults })
  const { outcomes } = await underWay(engine, ride)
  await postgres.kill()
  await postgres.restart()
  await provider.letGo()
  await outcomes
  const responses = await retryAll(engine, ride)
  expect(await retryAll(engine, ride)).toEqual(responses)
  await expectEachOnce()
  await expectUnharmed(engine)
})
