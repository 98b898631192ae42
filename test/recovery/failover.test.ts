import { randomUUID } from 'node:crypto'
import { subscribe } from '@pawl/core'
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

/** A ride whose call is held at the provider, while the test rewrites its key as a lossy failover would. */
async function rewriteDuringCall(rewrite: string) {
  const createRide = createRideOf(provider)
  const engine = createEngine({ pool: database.pool(), pipelines: [createRide], schema: database.schema })
  const fencedOff: unknown[] = []
  const stop = subscribe('pawl:fenced_off', (message) => fencedOff.push(message))
  await provider.willMeet('hold_then_execute')
  const running = engine.execute(createRide, { scope: 'rider', key: randomUUID(), input: { amount: 5 } })
  await provider.arrived()
  await database.rows(`UPDATE pawl.idempotency_keys SET ${rewrite}`)
  await provider.letGo()
  const outcome = await running
  stop()
  await engine.close()
  const rides = await database.rows<{ charge_id: string | null }>('SELECT charge_id FROM rides')
  const keys = await database.rows<{ recovery_point: string; holder: string }>(
    'SELECT recovery_point, holder FROM pawl.idempotency_keys',
  )
  return { outcome, fencedOff, rides, keys }
}

// Shows I1, I5.
test('two grants with the same fence, after a failover that lost the first, are told apart by their holders', async () => {
  const holder = randomUUID()
  const { outcome, fencedOff, rides, keys } = await rewriteDuringCall(`holder = '${holder}'`)
  expect(outcome).toMatchObject({ type: 'in_flight', fencedOff: true })
  expect(fencedOff).toHaveLength(1)
  expect(rides).toEqual([{ charge_id: null }])
  expect(keys).toEqual([{ recovery_point: 'ride_created', holder }])
})

test('a holder whose fence was overtaken commits nothing, whoever holds the key now', async () => {
  const { outcome, fencedOff, rides, keys } = await rewriteDuringCall('fence = fence + 1')
  expect(outcome).toMatchObject({ type: 'in_flight', fencedOff: true })
  expect(fencedOff).toHaveLength(1)
  expect(rides).toEqual([{ charge_id: null }])
  expect(keys).toMatchObject([{ recovery_point: 'ride_created' }])
})

// Shows I6.
test('a holder whose key went back to an earlier point commits nothing', async () => {
  const { outcome, rides } = await rewriteDuringCall(`recovery_point = 'started'`)
  expect(outcome).toMatchObject({ type: 'in_flight', fencedOff: true })
  expect(rides).toEqual([{ charge_id: null }])
})
