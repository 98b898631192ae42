import { describe } from 'vitest'
import { respond } from '@pawl/core'
import { fakeProvider } from '@pawl/crash-kit'
import { amountOf, IS_DEEP } from '../support/amounts.js'
import { pipeline, type RideInput } from '../support/rides.js'
import { rideKit } from './ride-kit.js'

const RACES = amountOf('races')

/**
 * Two legs of several phases each, with a phase that is skipped in the second, and a job from each leg. Some rows travel with
 * the query that comes next, or with COMMIT.
 */
function rideInLegs(provider: ReturnType<typeof fakeProvider>) {
  return pipeline<RideInput>({ name: 'ride-in-legs', version: 1, commits: 'fewest' })
    .local('ride_created', async ({ tx, input, scope, keyId }) => {
      const ride = await tx
        .insertInto('rides')
        .values({ rider: scope, amount: input.amount, key_id: keyId })
        .returning('id')
        .executeTakeFirstOrThrow()
      return { rideId: ride.id }
    })
    .local('ride_noted', async ({ tx, write, stage }) => {
      write(tx.insertInto('audit').values({ what: 'ride created' }))
      await stage('call_driver', {})
    })
    .foreign('charge_created', {
      call: ({ input, idempotencyKey, signal }) =>
        provider.send({ amount: input.amount }, { idempotencyKey, signal }),
      settle: ({ tx, write, state, result }) => {
        write(tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId))
        return { chargeId: result.id }
      },
      reference: ({ id }) => id,
    })
    .local('discounted', () => ({ discounted: true }), { when: ({ input }) => input.amount > 1_000_000 })
    .local('charge_noted', async ({ tx }) => {
      await tx.insertInto('audit').values({ what: 'charge created' }).execute()
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId })
      return respond(201, { ride: state.rideId, charge: state.chargeId })
    })
}

// What each of these shows of a ride whose phases commit by themselves is in ride.test.ts.
describe("any fault anywhere, with commits: 'fewest'", async () => {
  const provider = fakeProvider()
  const kit = rideKit({ pipeline: () => rideInLegs(provider) }, provider)
  await kit.exhaustive(IS_DEEP ? {} : { faults: ['crash', 'lostCommitAck', 'lostCommit', 'freeze'] })
  if (IS_DEEP) {
    await kit.exhaustive({ faults: ['failover'] })
    await kit.exhaustive({ faults: ['crash'], depth: 2 })
  }
  await kit.races({ runs: RACES })
})
