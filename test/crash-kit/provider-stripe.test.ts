import { Stripe } from 'stripe'
import { expect, test } from 'vitest'
import type { FakeRequest } from '../../packages/crash-kit/src/provider/fake-request.js'
import { openProvider } from './open-provider.js'

const DECLINED = { error: { type: 'card_error', code: 'card_declined', message: 'Your card was declined.' } }

/** The part of Stripe that the tests use: payment intents that are confirmed when they are created. */
function answer({ id, form }: FakeRequest) {
  if (form.get('payment_method') === 'pm_card_chargeDeclined') return { status: 402, body: DECLINED }
  return {
    body: {
      id: `pi_${id.slice(3)}`,
      object: 'payment_intent',
      amount: Number(form.get('amount')),
      currency: form.get('currency'),
      status: 'succeeded',
      metadata: { ride_id: form.get('metadata[ride_id]') },
    },
  }
}

async function stripeAtProvider() {
  const opened = await openProvider({
    answer,
    find: ({ path }, ledger) => {
      const effect = ledger.find(({ id }) => path === `/v1/payment_intents/${id}`)
      return effect === undefined ? null : { body: effect.answer }
    },
  })
  const { hostname: host, port } = new URL(opened.url)
  const stripe = new Stripe('sk_test', {
    host,
    port,
    protocol: 'http',
    maxNetworkRetries: 0,
    telemetry: false,
  })
  const charge = (method: string, idempotencyKey: string, amount = 2_000) =>
    stripe.paymentIntents.create(
      { amount, currency: 'usd', payment_method: method, confirm: true, metadata: { ride_id: '7' } },
      { idempotencyKey },
    )
  return { ...opened, stripe, charge }
}

test("Stripe's SDK pays once per Idempotency-Key, and finds the payment again", async () => {
  const { provider, stripe, charge } = await stripeAtProvider()
  const first = await charge('pm_card_visa', 'k1')
  const second = await charge('pm_card_visa', 'k1')
  expect(first).toMatchObject({ amount: 2_000, currency: 'usd', metadata: { ride_id: '7' } })
  expect(second.id).toBe(first.id)
  expect(provider.ledger).toMatchObject([{ id: first.id, idempotencyKey: 'k1', path: '/v1/payment_intents' }])
  expect((await stripe.paymentIntents.retrieve(first.id)).status).toBe('succeeded')
})

test("Stripe's SDK recognises a declined card, and a key that was used for something else", async () => {
  const { provider, charge } = await stripeAtProvider()
  await expect(charge('pm_card_chargeDeclined', 'k1')).rejects.toBeInstanceOf(Stripe.errors.StripeCardError)
  expect(provider.ledger).toEqual([])
  await charge('pm_card_visa', 'k2')
  await expect(charge('pm_card_visa', 'k2', 2_001)).rejects.toMatchObject({ statusCode: 409 })
  expect(provider.ledger).toHaveLength(1)
})

test("Stripe's SDK meets the faults as it would meet them at Stripe, and the next attempt pays once", async () => {
  const { provider, controls, charge } = await stripeAtProvider()
  controls.arm('tooMany')
  await expect(charge('pm_card_visa', 'k1')).rejects.toBeInstanceOf(Stripe.errors.StripeRateLimitError)
  controls.arm('malformed')
  await expect(charge('pm_card_visa', 'k1')).rejects.toThrow('Invalid JSON received from the Stripe API')
  const { id } = await charge('pm_card_visa', 'k1')
  expect(provider.ledger).toMatchObject([{ id }])
})

test("Stripe's SDK sends a request again when its connection broke, even with maxNetworkRetries 0, and pays once", async () => {
  const { provider, controls, charge } = await stripeAtProvider()
  controls.arm('cutAfter')
  const { id } = await charge('pm_card_visa', 'k1')
  expect(provider.ledger).toMatchObject([{ id }])
  expect(provider.requests).toMatchObject([
    { executed: true, status: null },
    { executed: false, status: 200 },
  ])
})
