import type { Suspicion } from '@pawl/core/internal'
import type { Problem } from './problems.js'

const DETAILS: Readonly<Record<Suspicion, string>> = {
  too_short: 'is too short',
  card_number: 'looks like a card number',
  email: 'looks like an e-mail address',
  phone_number: 'looks like a phone number',
}

/** What a client is told whose key the engine's `keyPolicy` refuses. It does not contain the key. */
export function unsuitableKey(header: string, suspicion: Suspicion): Problem {
  const detail = `The key in ${header} ${DETAILS[suspicion]}. Send a random one, such as a UUID.`
  return { code: 'idempotency_key_unsuitable', detail }
}
