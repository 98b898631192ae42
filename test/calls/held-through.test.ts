import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { respond } from '@pawl/core'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables, pipeline } from '../support/rides.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let provider: Provider
beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
})
afterEach(() => database.drop())

test('after a COMMIT that landed with its answer lost, the next phase runs under its own lease', async () => {
  const proxy = await PostgresProxy.start(database.url)
  const pool = database.pool({ connectionString: proxy.url })
  const paid = pipeline<null>({ name: 'paid', version: 1 })
    .local('noted', () => ({}), { leaseMs: 1_000 })
    .foreign('charged', { call: ({ idempotencyKey }) => provider.charge(1, { idempotencyKey }) })
    .finish(() => respond(204))
  const engine = createEngine({ pool, pipelines: [paid], schema: database.schema })
  await provider.willMeet('hold_then_execute')
  const struck = proxy.armCommit('answer_lost')
  const running = engine.execute(paid, { scope: 's', key: randomUUID(), input: null })
  await struck
  await provider.arrived()
  const left = `SELECT lease_until > clock_timestamp() + interval '10 s' AS long FROM pawl.idempotency_keys`
  expect(await database.rows(left)).toEqual([{ long: true }])
  await provider.letGo()
  expect(await running).toMatchObject({ type: 'completed' })
  await engine.close()
  await pool.end()
  await proxy.close()
})

test('we keep trying to save a known result while the key cannot be written', async () => {
  const createRide = createRideOf(provider)
  const { engine, stops } = engineWithStops(
    {
      pool: database.pool(),
      pipelines: [createRide],
      schema: database.schema,
      defaults: { leaseMs: 1_000, transactionRetries: 0 },
    },
    'give_back/give_back_key#2:before',
  )
  const request = { scope: 'rider', key: randomUUID(), input: { amount: 5 } }
  await provider.willMeet('hold_then_execute')
  const running = engine.execute(createRide, request)
  await provider.arrived()
  const blocker = await database.admin.connect()
  await blocker.query('BEGIN')
  await blocker.query(`SELECT 1 FROM ${database.schema}.idempotency_keys FOR UPDATE`)
  await provider.letGo()
  const [secondTry] = stops
  expect(await Promise.race([secondTry.reached.then(() => 'tried again'), running])).toBe('tried again')
  await blocker.query('ROLLBACK')
  blocker.release()
  secondTry.go()
  expect(await running).toMatchObject({ type: 'retry_later', recoveryPoint: 'ride_created' })
  const saved = { lease: null, call: { phase: 'charge_created', known: 'returned' } }
  expect(await engine.inspect('rider', request.key)).toMatchObject(saved)
  expect(await engine.execute(createRide, request)).toMatchObject({ type: 'completed' })
  expect(await provider.requests()).toHaveLength(1)
  await engine.close()
})
