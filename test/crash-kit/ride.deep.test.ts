import { describe } from 'vitest'
import { absent, found, respond, retryLater } from '@pawl/core'
import { fakeProvider } from '@pawl/crash-kit'
import { amountOf } from '../support/amounts.js'
import { pipeline, type RideInput } from '../support/rides.js'
import { rideKit } from './ride-kit.js'

/** More races: `PAWL_RACES=2000 npm run test:deep -- crash-kit/ride`. */
const RACES = amountOf('races')

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

/** Guarantees of a provider that can be queried, and of one that cannot. */
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
