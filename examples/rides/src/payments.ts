import { Stripe } from 'stripe'

/** One charge of a rider. */
interface Charge {
  readonly amount: number
  readonly currency: string
  readonly paymentMethod: string
}

/** A charge at the provider. A type, not an interface: it is kept as JSON. */
type Payment = { readonly id: string; readonly status: string }

/** The payments provider, as far as the pipeline needs it. */
export interface Payments {
  charge(charge: Charge, idempotencyKey: string): Promise<Payment>
  /** The payment that was made under a key, if there is one. We ask for it when the provider may have forgotten the key. */
  find(idempotencyKey: string): Promise<Payment | null>
}

/** The real SDK, talking to Stripe or to whatever speaks its protocol at `apiBase`. */
export function stripePayments(apiKey: string, apiBase: URL | null, timeoutMs: number): Payments {
  const stripe = new Stripe(apiKey, {
    // Pawl retries, with the same key. Retries of the SDK would only make each attempt longer.
    maxNetworkRetries: 0,
    timeout: timeoutMs,
    telemetry: false,
    ...(apiBase === null ? {} : addressOf(apiBase)),
  })
  return {
    async charge({ amount, currency, paymentMethod }, idempotencyKey) {
      const intent = await stripe.paymentIntents.create(
        {
          amount,
          currency,
          payment_method: paymentMethod,
          confirm: true,
          automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
          description: 'A ride',
          // The key itself, and nothing that a table has generated, such as the id of the ride: after a failover that has lost
          // the ride, the retry makes another one, and Stripe refuses a key that it knows with another request.
          metadata: { reference: idempotencyKey },
        },
        { idempotencyKey },
      )
      return { id: intent.id, status: intent.status }
    },
    async find(idempotencyKey) {
      const query = `metadata['reference']:'${idempotencyKey}'`
      const { data } = await stripe.paymentIntents.search({ query })
      const intent = data.find(({ status }) => status === 'succeeded')
      return intent === undefined ? null : { id: intent.id, status: intent.status }
    },
  }
}

/** The provider's reason, if it said that the card was declined; null for every other error. */
export function whyDeclined(error: unknown): string | null {
  if (!(error instanceof Stripe.errors.StripeCardError)) return null
  return error.decline_code ?? error.code ?? 'declined'
}

function addressOf(url: URL): { host: string; port: string; protocol: 'http' | 'https' } {
  const protocol = url.protocol === 'http:' ? 'http' : 'https'
  return { host: url.hostname, port: url.port || (protocol === 'http' ? '80' : '443'), protocol }
}
