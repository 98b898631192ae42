import { respond } from '@pawl/core'
import { fakeProvider } from '@pawl/crash-kit'
import { describe } from 'vitest'
import { pipeline, type RideInput } from '../support/rides.js'
import { rideKit } from './ride-kit.js'

/** A ride is charged, and a fax is sent which the request can do without. */
function rideWithFax(provider: ReturnType<typeof fakeProvider>) {
  return pipeline<RideInput>({ name: 'ride-with-fax', version: 1 })
    .local('ride_created', async ({ tx, input, scope, keyId }) => {
      const ride = { rider: scope, amount: input.amount, key_id: keyId }
      await tx.insertInto('rides').values(ride).execute()
    })
    .foreign('faxed', {
      guarantee: 'at_most_once',
      call: ({ input, idempotencyKey, signal }) =>
        provider.send({ amount: input.amount }, { idempotencyKey, signal }),
      settle: ({ result }) => ({ fax: result.id }),
      whenUnknown: () => ({ fax: 'perhaps' }),
    })
    .local('noted', async ({ tx, state }) => {
      await tx.insertInto('audit').values({ what: state.fax }).execute()
    })
    .finish(({ state }) => respond(201, { fax: state.fax }))
}

describe('a request that goes on without a call whose outcome nobody knows is no finding', async () => {
  const provider = fakeProvider({ keyOf: null })
  await rideKit({ pipeline: () => rideWithFax(provider) }, provider).exhaustive({
    faults: ['crash', 'lostCommitAck'],
  })
})
