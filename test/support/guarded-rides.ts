import { absent, found, type Pipeline, respond } from '@pawl/core'
import type { Provider } from './provider.js'
import { type Database, pipeline, type RideInput } from './rides.js'

const rideCreated = (name: string) =>
  pipeline<RideInput>({ name, version: 1 }).local('ride_created', async ({ tx, input, scope, keyId }) => {
    const ride = await tx
      .insertInto('rides')
      .values({ rider: scope, amount: input.amount, key_id: keyId })
      .returning('id')
      .executeTakeFirstOrThrow()
    return { rideId: ride.id }
  })

/** The ride with a provider that can be asked whether a charge happened. */
export function queryableRideOf(provider: Provider): Pipeline<Database, RideInput> {
  return rideCreated('queryable-ride')
    .foreign('charge_created', {
      guarantee: 'queryable',
      quietForMs: 60_000,
      call: ({ input, idempotencyKey, signal }) => provider.charge(input.amount, { idempotencyKey, signal }),
      reconcile: async ({ idempotencyKey }) => {
        const charge = await provider.find(idempotencyKey)
        return charge === null ? absent() : found(charge)
      },
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId })
      return respond(201, { id: state.rideId, charge: state.chargeId })
    })
}

/** The ride with a provider that neither deduplicates nor can be asked. */
export function atMostOnceRideOf(provider: Provider): Pipeline<Database, RideInput> {
  return rideCreated('at-most-once-ride')
    .foreign('charge_created', {
      guarantee: 'at_most_once',
      call: ({ input, signal }) => provider.charge(input.amount, { signal }),
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId })
      return respond(201, { id: state.rideId, charge: state.chargeId })
    })
}

/** Not really a ride: a phase that is always skipped, and an answer. */
export function skippedRide(): Pipeline<Database, RideInput> {
  return pipeline<RideInput>({ name: 'skipped-ride', version: 1 })
    .local('ride_created', () => ({ never: true }), { when: () => false })
    .finish(() => respond(204))
}
