import { type FakeProvider, type FakeRequest, fakeProvider } from '@pawl/crash-kit'

/** As much of Stripe as `payments.ts` talks to. The kit's provider knows repetitions by itself, and keeps the books. */
export function fakeStripe(): FakeProvider {
  return fakeProvider({
    answer: (request) => (isDeclined(request) ? DECLINED : { body: intentOf(request) }),
    // The one query that the service asks.
    find: ({ query }, ledger) => {
      const data = ledger.map(({ answer }) => answer as ReturnType<typeof intentOf>)
      const found = data.filter(
        ({ metadata }) => query.get('query') === `metadata['reference']:'${metadata.reference}'`,
      )
      return { body: { object: 'search_result', data: found, has_more: false } }
    },
  })
}

const DECLINED = {
  status: 402,
  body: { error: { type: 'card_error', code: 'card_declined', decline_code: 'generic_decline' } },
}

function isDeclined({ form }: FakeRequest): boolean {
  return form.get('payment_method') === 'pm_card_chargeDeclined'
}

function intentOf({ id, form }: FakeRequest) {
  return {
    id: id.replace('ef_', 'pi_'),
    object: 'payment_intent',
    amount: Number(form.get('amount')),
    currency: form.get('currency'),
    status: 'succeeded',
    metadata: { reference: form.get('metadata[reference]') },
  }
}
