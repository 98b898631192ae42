import { randomUUID } from 'node:crypto'
import formbody from '@fastify/formbody'
import { type Pipeline, respond, retryLater } from '@pawl/core'
import { Stripe } from 'stripe'
import { Agent, request, RetryAgent } from 'undici'
import { describe, expect, onTestFinished, test } from 'vitest'
import { heard } from '../support/heard.js'
import { listen } from '../support/http-client.js'
import type { Provider } from '../support/provider.js'
import { type RideApp, rideApp, surroundings } from '../support/ride-app.js'
import { type Database, pipeline } from '../support/rides.js'

// These clients retry by themselves: no test here sends anything twice.

interface IntentInput {
  readonly amount: number
}

/** What can go wrong in the server, besides what the provider is told to do. */
type Mishap = 'answers 503 after the charge' | 'throws after the charge' | 'loses its answer'

/** A charge as the provider makes it, which the clients know as a payment intent. */
function createIntentOf(provider: Provider, mishaps: Mishap[]): Pipeline<Database, IntentInput> {
  return pipeline<IntentInput>({ name: 'create-intent', version: 1 })
    .foreign('charged', {
      call: ({ input, idempotencyKey, signal }) => provider.charge(input.amount, { idempotencyKey, signal }),
      settle: ({ result }) => ({ chargeId: result.id }),
      onError: ({ error }) => retryLater(error, { afterMs: 0 }),
    })
    .finish(({ state, input }) => {
      const mishap = mishaps[0] === 'loses its answer' ? undefined : mishaps.shift()
      if (mishap === 'answers 503 after the charge') return respond(503, { error: { message: 'not now' } })
      if (mishap === 'throws after the charge') throw new Error(mishap)
      return respond(200, { id: state.chargeId, object: 'payment_intent', amount: input.amount })
    })
}

async function intentsApp(profile: 'stripe' | 'ietf', mishaps: Mishap[] = []) {
  const beside = await surroundings()
  const createIntent = createIntentOf(beside.provider, mishaps)
  const ride: RideApp = await rideApp({
    beside,
    plugin: { profile },
    pipelines: [createIntent],
    before: async (app) => {
      await app.register(formbody)
    },
    routes: (app) => {
      app.addHook('onSend', async ({ raw }) => {
        if (mishaps[0] === 'loses its answer') {
          mishaps.shift()
          raw.socket.destroy()
        }
      })
      app.post<{ Body: { amount: string } }>('/v1/payment_intents', { idempotency: true }, ({ pawl, body }) =>
        pawl.run(createIntent, { amount: Number(body.amount) }),
      )
    },
  })
  return { ...ride, url: new URL(await listen(ride.app)) }
}

const requestsIn = (log: RideApp['log']) => log.filter(({ msg }) => msg === 'incoming request').length

const troubles = {
  'the provider fails': async (provider: Provider) => provider.willMeet('refuse_500'),
  "the provider's answer is lost": async (provider: Provider) => provider.willMeet('executes_then_cuts'),
  'the server answers 503 after the charge': 'answers 503 after the charge',
  'the server throws after the charge': 'throws after the charge',
  "the server's answer is lost": 'loses its answer',
} as const

async function inTrouble(profile: 'stripe' | 'ietf', trouble: (typeof troubles)[keyof typeof troubles]) {
  const app = await intentsApp(profile, typeof trouble === 'string' ? [trouble] : [])
  if (typeof trouble !== 'string') await trouble(app.provider)
  return app
}

const stripeAt = ({ hostname, port }: URL) =>
  new Stripe('sk_test_ann', {
    host: hostname,
    port,
    protocol: 'http',
    maxNetworkRetries: 3,
    telemetry: false,
  })

describe("Stripe's own client", () => {
  const intent = { amount: 20, currency: 'eur' }

  test.each(Object.entries(troubles))('has one success and one effect when %s', async (_, trouble) => {
    const { url, provider, log } = await inTrouble('stripe', trouble)
    // The client generates a key by itself, because it is going to retry.
    const { id } = await stripeAt(url).paymentIntents.create(intent)
    expect(await provider.ledger()).toMatchObject([{ id, amount: 20 }])
    expect(requestsIn(log)).toBe(2)
  })

  test('comes back by itself while its request is being processed', async () => {
    const { url, provider } = await intentsApp('stripe')
    const idempotencyKey = randomUUID()
    await provider.willMeet('hold_then_execute')
    const first = stripeAt(url).paymentIntents.create(intent, { idempotencyKey })
    await provider.arrived()
    const conflict = heard('pawl:in_flight')
    const second = stripeAt(url).paymentIntents.create(intent, { idempotencyKey })
    await conflict
    await provider.letGo()
    const ids = [(await first).id, (await second).id]
    expect(await provider.ledger()).toMatchObject([{ id: ids[0] }])
    expect(ids[1]).toBe(ids[0])
    expect((await second).lastResponse.headers['idempotent-replayed']).toBe('true')
    expect((await second).lastResponse.idempotencyKey).toBe(idempotencyKey)
  })

  test('recognizes the error for a key that was used for another request, and does not retry', async () => {
    const { url, provider, log } = await intentsApp('stripe')
    const idempotencyKey = randomUUID()
    await stripeAt(url).paymentIntents.create(intent, { idempotencyKey })
    const other = stripeAt(url).paymentIntents.create({ ...intent, amount: 21 }, { idempotencyKey })
    const error: unknown = await other.catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(Stripe.errors.StripeIdempotencyError)
    expect(error).toMatchObject({ statusCode: 400, code: 'idempotency_key_reused' })
    expect(requestsIn(log)).toBe(2)
    expect(await provider.ledger()).toHaveLength(1)
  })
})

async function sendIntent(url: URL, key: string) {
  const agent = new RetryAgent(new Agent(), {
    maxRetries: 5,
    minTimeout: 10,
    methods: ['POST'],
    statusCodes: [409, 500, 503],
  })
  onTestFinished(() => agent.close())
  const { statusCode, headers, body } = await request(new URL('/v1/payment_intents', url), {
    method: 'POST',
    dispatcher: agent,
    headers: { authorization: 'Bearer ann', 'idempotency-key': key, 'content-type': 'application/json' },
    body: JSON.stringify({ amount: 20 }),
  })
  return { statusCode, headers, body: (await body.json()) as { id: string } }
}

describe("undici's RetryAgent", () => {
  test.each(Object.entries(troubles))('has one success and one effect when %s', async (_, trouble) => {
    const { url, provider, log } = await inTrouble('ietf', trouble)
    const { statusCode, body } = await sendIntent(url, 'k1')
    expect(statusCode).toBe(200)
    expect(await provider.ledger()).toMatchObject([{ id: body.id, amount: 20 }])
    expect(requestsIn(log)).toBe(2)
  })

  test('comes back by itself while its request is being processed', async () => {
    const { url, provider } = await intentsApp('ietf')
    await provider.willMeet('hold_then_execute')
    const first = sendIntent(url, 'k1')
    await provider.arrived()
    const conflict = heard('pawl:in_flight')
    const second = sendIntent(url, 'k1')
    await conflict
    await provider.letGo()
    expect((await second).body).toEqual((await first).body)
    expect((await second).headers['idempotency-replayed']).toBe('true')
    expect(await provider.ledger()).toHaveLength(1)
  })
})
