import { absent, found, respond, retryLater } from '@pawl/core'
import { type Static, Type } from '@fastify/type-provider-typebox'
import { pipeline } from './database.js'
import { type Payments, whyDeclined } from './payments.js'

export const RideRequest = Type.Object(
  {
    origin_lat: Type.Number({ minimum: -90, maximum: 90 }),
    origin_lon: Type.Number({ minimum: -180, maximum: 180 }),
    target_lat: Type.Number({ minimum: -90, maximum: 90 }),
    target_lon: Type.Number({ minimum: -180, maximum: 180 }),
  },
  { additionalProperties: false },
)

export type RideInput = Static<typeof RideRequest>

/** Every ride costs the same. In cents, as the payments provider counts. */
const AMOUNT = 2_000
const CURRENCY = 'usd'

export interface RideOptions {
  /** How long a finished key is kept, where that is not the default. */
  readonly retentionMs?: number | null
  /**
   * Whether Pawl's record of the charge has the provider's id for it. Otherwise only the `rides` know, and reconciliation goes by the
   * provider key.
   */
  readonly namesCharge?: boolean
}

/** Stripe forgets keys after a day. */
const WINDOW_MS = 23 * 3_600_000

/**
 * started → ride_created → charge_created → finished
 *
 * A crash between any two of them resumes at the last one that committed.
 */
export const createRideWith = (
  payments: Payments,
  { retentionMs = null, namesCharge = true }: RideOptions = {},
) =>
  pipeline<RideInput>({ name: 'create-ride', version: 1 })
    .local('ride_created', async ({ tx, input, scope: userId, keyId }) => {
      const ride = await tx
        .insertInto('rides')
        .values({ ...input, user_id: userId, key_id: keyId, amount: AMOUNT, currency: CURRENCY })
        .returning('id')
        .executeTakeFirstOrThrow()
      await tx
        .insertInto('audit_records')
        .values({ action: 'ride.created', user_id: userId, resource_id: ride.id })
        .execute()
      const rider = await tx
        .selectFrom('users')
        .select('payment_method')
        .where('id', '=', userId)
        .executeTakeFirstOrThrow()
      return { rideId: ride.id, paymentMethod: rider.payment_method }
    })

    .foreign('charge_created', {
      call: ({ state, idempotencyKey }) =>
        payments.charge(
          { amount: AMOUNT, currency: CURRENCY, paymentMethod: state.paymentMethod },
          idempotencyKey,
        ),
      settle: async ({ tx, state, scope: userId, result }) => {
        // Such as a card whose owner has to confirm: nothing was charged.
        if (result.status.startsWith('requires_'))
          return respond(402, { code: 'not_charged', reason: result.status })
        await tx
          .updateTable('rides')
          .set({ charge_id: result.id })
          .where('user_id', '=', userId)
          .where('id', '=', state.rideId)
          .execute()
        return { chargeId: result.id }
      },
      reference: (result) => (namesCharge ? result.id : null),
      // A key has to be kept for at least as long as the provider is relied on.
      windowMs: Math.min(WINDOW_MS, retentionMs ?? WINDOW_MS),
      // Runs only a day later, when the provider may have forgotten the key.
      reconcile: async ({ idempotencyKey }) => {
        const payment = await payments.find(idempotencyKey)
        return payment === null ? absent() : found(payment)
      },
      onError: ({ error }) => {
        const declined = whyDeclined(error)
        return declined === null
          ? retryLater(error)
          : respond(402, { code: 'card_declined', reason: declined })
      },
    })

    .finish(async ({ state, scope: userId, stage }) => {
      await stage('send_receipt', { user_id: userId, ride_id: state.rideId })
      return respond(
        201,
        {
          id: state.rideId,
          charge_id: state.chargeId,
          amount: AMOUNT,
          currency: CURRENCY,
          status: 'charged',
        },
        { headers: { location: `/rides/${state.rideId}` } },
      )
    })
