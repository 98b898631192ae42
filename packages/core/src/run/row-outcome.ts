import { IN_FLIGHT_RETRY_MS } from '../limits.js'
import type { Outcome, StuckReason } from '../pipeline/outcome.js'
import type { StoredResponse } from '../pipeline/directive.js'
import type { KeyRow } from '../storage/keys/key-row.js'

type OutcomeOf<Type extends Outcome['type']> = Extract<Outcome, { type: Type }>

export function replayedOutcome(row: KeyRow, response: StoredResponse): OutcomeOf<'replayed'> {
  return { type: 'replayed', keyId: row.id, response, expiresAt: new Date(row.expiresMs ?? row.nowMs) }
}

export function stuckOutcome(row: KeyRow, reason: StuckReason, lastError: string | null): OutcomeOf<'stuck'> {
  return { type: 'stuck', keyId: row.id, reason, recoveryPoint: row.recoveryPoint, lastError }
}

/** `leaseLeftMs` is null if the row was locked and could not be looked at. */
export function inFlightOutcome(leaseLeftMs: number | null, fencedOff: boolean): OutcomeOf<'in_flight'> {
  const retryAfterMs = Math.max(0, Math.min(leaseLeftMs ?? IN_FLIGHT_RETRY_MS, IN_FLIGHT_RETRY_MS))
  return { type: 'in_flight', retryAfterMs, leaseLeftMs, fencedOff }
}
