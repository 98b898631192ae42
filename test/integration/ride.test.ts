import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let provider: Provider

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
})
afterEach(() => database.drop())

test('the ride runs through its phases, and everything is written where the design says', async () => {
  const createRide = createRideOf(provider)
  const engine = createEngine({ pool: database.pool(), pipelines: [createRide], schema: database.schema })
  const key = randomUUID()
  const outcome = await engine.execute(createRide, { scope: 'rider-1', key, input: { amount: 1_200 } })
  if (outcome.type !== 'completed') throw outcome
  expect(outcome.response.status).toBe(201)
  const rides = await database.rows<{ id: string; charge_id: string; key_id: string }>('SELECT * FROM rides')
  const ledger = await provider.ledger()
  expect(rides).toEqual([
    { id: rides[0]?.id, rider: 'rider-1', amount: 1_200, charge_id: ledger[0]?.id, key_id: outcome.keyId },
  ])
  const view = await engine.inspect('rider-1', key)
  expect(view?.trail.map(({ point, fence }) => [point, fence])).toEqual([
    ['ride_created', 1],
    ['charge_created', 1],
    ['finished', 1],
  ])
  expect(await engine.execute(createRide, { scope: 'rider-1', key, input: { amount: 1_200 } })).toMatchObject(
    { type: 'replayed' },
  )
  await engine.close()
})
