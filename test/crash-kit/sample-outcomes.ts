import type { JsonValue, StoredResponse } from '@pawl/core'
import type { ReturnedOutcome } from '../../packages/crash-kit/src/history.js'

/** An outcome of one type. */
export type OutcomeOf<Type extends ReturnedOutcome['outcome']['type']> = Extract<
  ReturnedOutcome['outcome'],
  { type: Type }
>

export const MISMATCH: OutcomeOf<'mismatch'> = { type: 'mismatch', differs: 'request' }
export const FENCED_OFF: OutcomeOf<'in_flight'> = {
  type: 'in_flight',
  retryAfterMs: 1_000,
  leaseLeftMs: 9_000,
  fencedOff: true,
}
export const IN_FLIGHT: OutcomeOf<'in_flight'> = { ...FENCED_OFF, fencedOff: false }
export const REFUSED: OutcomeOf<'refused'> = {
  type: 'refused',
  pipeline: 'create-ride',
  version: 1,
  detail: 'version 1 is not registered here',
}
export const UNAVAILABLE: OutcomeOf<'unavailable'> = {
  type: 'unavailable',
  error: new Error('no connection'),
}

export const LIMITED: OutcomeOf<'limited'> = {
  type: 'limited',
  limit: 'new_keys',
  of: 'scope',
  max: 10,
  perMs: 60_000,
  retryAfterMs: 6_000,
}

export const EXPIRED: OutcomeOf<'expired'> = {
  type: 'expired',
  keyId: '01890a5d-ac96-774b-bcce-b302099a8057',
  settledAt: new Date(0),
}

/** A response as the engine stores and returns it. */
export function json(status: number, body: JsonValue, headers: Record<string, string> = {}): StoredResponse {
  const all = { 'content-type': 'application/json', ...headers }
  return { status, headers: all, body: Buffer.from(JSON.stringify(body)) }
}
