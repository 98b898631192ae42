import { randomUUID } from 'node:crypto'
import type { PipelineSettings } from '@pawl/core'
import type { Core } from './load-variant.js'
import { answerTo, beginRide, type Charge, type RideOf } from './ride-of.js'
import { endingRideOf, parallelRideOf, rideInLegsOf, writingRideOf } from './transaction-rides.js'
import type { NeededRide } from './variant.js'

/** The ride of the design: create, charge, answer. The provider deduplicates. */
const rideOf: RideOf = (core, charge) =>
  beginRide(core, 'ride')
    .foreign('charge_created', {
      call: ({ input, idempotencyKey, signal }) =>
        charge({ amount: input.amount }, { idempotencyKey, signal }),
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId })
      return core.respond(201, { ride: state.rideId, charge: state.chargeId })
    })

/** The same with a provider that neither deduplicates nor can be asked. */
const atMostOnceRideOf: RideOf = (core, charge) => atMostOnceRide(core, charge, {})

/** The same in legs: the first one declares the call. */
const atMostOnceInLegsOf: RideOf = (core, charge) => atMostOnceRide(core, charge, { commits: 'fewest' })

const atMostOnceRide = (core: Core, charge: Charge, settings: PipelineSettings) =>
  beginRide(core, 'at-most-once-ride', settings)
    .foreign('charge_created', {
      guarantee: 'at_most_once',
      call: ({ input, signal }) => charge({ amount: input.amount }, { signal }),
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId })
      return core.respond(201, { ride: state.rideId, charge: state.chargeId })
    })

/** The same with a provider that does not deduplicate, but can be asked. */
const queryableRideOf: RideOf = (core, charge, find) =>
  beginRide(core, 'queryable-ride')
    .foreign('charge_created', {
      guarantee: 'queryable',
      call: ({ input, idempotencyKey, signal }) =>
        charge({ amount: input.amount }, { idempotencyKey, signal }),
      reconcile: async ({ idempotencyKey }) => {
        const made = await find(idempotencyKey)
        return made === null ? core.absent() : core.found(made)
      },
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(({ state }) => core.respond(201, { ride: state.rideId, charge: state.chargeId }))

/** Whether its provider takes a second request under the same key for the same request. */
export function isDeduplicated(ride: RideOf): boolean {
  return ride !== queryableRideOf
}

/** There and back: two charges that look the same, and are two. */
const returnRideOf: RideOf = (core, charge) =>
  beginRide(core, 'return-ride')
    .foreign('charge_created', {
      call: ({ input, idempotencyKey, signal }) =>
        charge({ amount: input.amount }, { idempotencyKey, signal }),
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .foreign('return_charge_created', {
      call: ({ input, idempotencyKey, signal }) =>
        charge({ amount: input.amount }, { idempotencyKey, signal }),
      settle: async ({ tx, state, result }) => {
        const charged = { return_charge_id: result.id }
        await tx.updateTable('rides').set(charged).where('id', '=', state.rideId).execute()
        return { returnChargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId })
      const { rideId, chargeId, returnChargeId } = state
      return core.respond(201, { ride: rideId, charge: chargeId, return: returnChargeId })
    })

/** The error of a client that does not say why it has no answer. */
class ChargeFailed extends Error {}

/** Takes every error without a status of the provider for a declined card. */
const hastyRideOf: RideOf = (core, charge) =>
  beginRide(core, 'hasty-ride')
    .foreign('charge_created', {
      call: async ({ input, idempotencyKey, signal }) => {
        try {
          return await charge({ amount: input.amount }, { idempotencyKey, signal })
        } catch (error) {
          throw statusOf(error) === null ? new ChargeFailed('no charge') : error
        }
      },
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) =>
        error instanceof ChargeFailed ? core.respond(402, { code: 'charge_failed' }) : core.retryLater(error),
    })
    .finish(({ state }) => core.respond(201, { ride: state.rideId, charge: state.chargeId }))

const RECEIPT = 'x'.repeat(100 * 1024)

/** The provider's answer comes with a receipt, which settle does not need. */
const largeResultRideOf: RideOf = (core, charge) =>
  beginRide(core, 'large-result-ride')
    .foreign('charge_created', {
      guarantee: 'at_most_once',
      call: async ({ input, signal }) => {
        const { id } = await charge({ amount: input.amount }, { signal })
        return { id, receipt: RECEIPT }
      },
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(({ state }) => core.respond(201, { ride: state.rideId, charge: state.chargeId }))

/** Sends another request at each attempt, which the provider refuses as Stripe does: with 400. */
const refusedRideOf: RideOf = (core, charge) =>
  beginRide(core, 'refused-ride', { maxAttempts: 2 })
    .foreign('charge_created', {
      call: async ({ input, idempotencyKey, signal }) => {
        try {
          return await charge({ amount: input.amount, note: randomUUID() }, { idempotencyKey, signal })
        } catch (error) {
          throw statusOf(error) === 409 ? Object.assign(new Error('key reused'), { status: 400 }) : error
        }
      },
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      onError: ({ error }) => core.retryLater(error),
    })
    .finish(({ state }) => core.respond(201, { ride: state.rideId, charge: state.chargeId }))

function statusOf(error: unknown): number | null {
  return (error as { readonly status?: number }).status ?? null
}

/** The ride on which a variant's weakness shows. */
export const RIDES: Readonly<Record<NeededRide, RideOf>> = {
  keyed: rideOf,
  at_most_once: atMostOnceRideOf,
  queryable: queryableRideOf,
  two_calls: returnRideOf,
  parallel: parallelRideOf,
  ends_itself: endingRideOf,
  hasty: hastyRideOf,
  large_result: largeResultRideOf,
  refused: refusedRideOf,
  legs: rideInLegsOf,
  declaring_legs: atMostOnceInLegsOf,
  writes: writingRideOf,
}
