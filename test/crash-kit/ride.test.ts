import { describe, expect, test } from 'vitest'
import { absent, found, respond, retryLater } from '@pawl/core'
import { fakeProvider } from '@pawl/crash-kit'
import { pipeline, type RideInput } from '../support/rides.js'
import { rideKit } from './ride-kit.js'

/** More races: `PAWL_RACES=2000 npm test -- crash-kit/ride`. */
const RACES = Number(process.env['PAWL_RACES'] ?? '15')

describe('any fault anywhere', async () => {
  const kit = rideKit()
  await kit.exhaustive()
  await kit.exhaustive({ faults: ['failover'] })
  await kit.races({ runs: RACES })
})

describe('one statement at a time, where a process can die between UPDATE and COMMIT', async () => {
  const kit = rideKit({ engine: { pipelining: false } })
  await kit.exhaustive({ faults: ['crash', 'lostCommitAck', 'lostCommit', 'freeze', 'tableLock'] })
  await kit.races({ runs: Math.ceil(RACES / 3) })
})

describe('with statements that the server keeps prepared', async () => {
  await rideKit({ engine: { preparedStatements: true, preparedQueries: true } }).exhaustive({
    faults: ['crash', 'connectionKilled'],
  })
})

describe('a second fault anywhere in the recovery from a first', async () => {
  await rideKit().exhaustive({ faults: ['crash'], depth: 2 })
})

/** A provider that can be asked, then one that cannot. */
function guardedRide(provider: ReturnType<typeof fakeProvider>) {
  return pipeline<RideInput>({ name: 'guarded-ride', version: 1 })
    .foreign('seat_held', {
      guarantee: 'queryable',
      call: ({ input, idempotencyKey, signal }) =>
        provider.send({ seats: input.amount }, { idempotencyKey, signal, path: '/seats' }),
      reconcile: async ({ idempotencyKey }) => {
        const seat = await provider.find(idempotencyKey)
        return seat === null ? absent() : found(seat)
      },
      settle: ({ result }) => ({ seat: result.id }),
    })
    .local('ride_created', async ({ tx, input, scope, keyId }) => {
      await tx.insertInto('rides').values({ rider: scope, amount: input.amount, key_id: keyId }).execute()
    })
    .foreign('driver_called', {
      guarantee: 'at_most_once',
      call: ({ input, signal }) => provider.send({ amount: input.amount }, { signal, path: '/calls' }),
      settle: ({ result }) => ({ call: result.id }),
      onError: ({ error }) => retryLater(error),
    })
    .finish(({ state }) => respond(201, { seat: state.seat, call: state.call }))
}

describe('whatever the provider promises', async () => {
  const provider = fakeProvider({ keyOf: null })
  const kit = rideKit({ pipeline: () => guardedRide(provider) }, provider)
  await kit.exhaustive({
    faults: [
      'crash',
      'throw',
      'lostCommitAck',
      'lostCommit',
      'providerMalformed',
      'leaseExpiry',
      'databaseClock',
      'tableLock',
    ],
  })
  await kit.races({ runs: Math.ceil(RACES / 3) })
})

test('a kit inside of a test runs there, and counts its cases', async () => {
  const kit = rideKit()
  await kit.replay('crash@charge_created/call#1:after')
  expect(kit.casesRun).toBe(1)
  await kit.close()
})
