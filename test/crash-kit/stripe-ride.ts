import { respond, retryLater } from '@pawl/core'
import { type FakeProvider, fakeProvider } from '@pawl/crash-kit'
import { Stripe } from 'stripe'
import { pipeline, type RideInput } from '../support/rides.js'

/** What can identify a charge when it is sent. */
interface Known {
  readonly rideId: string
  readonly idempotencyKey: string
}

/** Answers as Stripe does. */
export function fakeStripe(): FakeProvider {
  return fakeProvider({
    answer: ({ id, form }) => {
      const amount = Number(form.get('amount'))
      return { body: { id: `pi_${id}`, object: 'payment_intent', amount, status: 'succeeded' } }
    },
  })
}

/**
 * The ride of the rides example, through Stripe's own SDK. `referenceOf` returns the reference that the charge is sent with. The
 * example once sent the ride's id, which its database had generated.
 */
export const stripeRide = (provider: FakeProvider, referenceOf: (known: Known) => string) => {
  const { hostname: host, port } = new URL(provider.url)
  const stripe = new Stripe('sk_test_any', {
    host,
    port,
    protocol: 'http',
    maxNetworkRetries: 0,
    telemetry: false,
  })
  return pipeline<RideInput>({ name: 'stripe-ride', version: 1 })
    .local('ride_created', async ({ tx, input, scope, keyId }) => {
      const values = { rider: scope, amount: input.amount, key_id: keyId }
      const ride = await tx.insertInto('rides').values(values).returning('id').executeTakeFirstOrThrow()
      return { rideId: ride.id }
    })
    .foreign('charge_created', {
      call: async ({ input, state, idempotencyKey }) => {
        const reference = referenceOf({ rideId: state.rideId, idempotencyKey })
        const card = { currency: 'usd', payment_method: 'pm_card_visa', confirm: true }
        const metadata = { reference }
        const { id } = await stripe.paymentIntents.create(
          { amount: input.amount, ...card, description: `Ride ${reference}`, metadata },
          { idempotencyKey },
        )
        return { id }
      },
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: ({ id }) => id,
      onError: ({ error }) => retryLater(error),
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { ride_id: state.rideId })
      return respond(201, { id: state.rideId, charge_id: state.chargeId })
    })
}
