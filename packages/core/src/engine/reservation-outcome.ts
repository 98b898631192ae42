import { announce, type KeyMessage } from '../announce/announce.js'
import type { NameHasher } from '../announce/name-hasher.js'
import type { Decided, NotGranted } from '../request/reserve-key.js'
import type { Outcome } from '../pipeline/outcome.js'
import { inFlightOutcome, replayedOutcome, stuckOutcome } from '../run/row-outcome.js'

/** Returns what an execution that got no grant is told, and announces it. `asked` hashes names, so it waits for a listener. */
export function reservationOutcome(reservation: NotGranted, asked: () => KeyMessage): Outcome {
  switch (reservation.type) {
    case 'unavailable': {
      const { error } = reservation
      announce('pawl:unavailable', () => ({ error }))
      return { type: 'unavailable', error }
    }
    case 'locked':
      return inFlight(null, asked)
    case 'expired': {
      const { keyId, settledMs } = reservation.effect
      const settledAt = new Date(settledMs)
      announce('pawl:expired', () => ({ ...asked(), keyId, settledAt }))
      return { type: 'expired', keyId, settledAt }
    }
    case 'limited': {
      const { limit, of, max, perMs, retryAfterMs } = reservation
      announce('pawl:limited', () => ({ ...asked(), limit, of, retryAfterMs }))
      return { type: 'limited', limit, of, max, perMs, retryAfterMs }
    }
    case 'decided':
      return decidedOutcome(reservation, asked)
  }
}

function decidedOutcome(reservation: Decided, asked: () => KeyMessage): Outcome {
  const { row, decision } = reservation
  const message = () => ({ ...asked(), pipeline: row.pipeline, version: row.version, keyId: row.id })
  switch (decision.type) {
    case 'replay':
      announce('pawl:replayed', () => ({ ...message(), from: reservation.from }))
      return replayedOutcome(row, decision.response)
    case 'in_flight':
      return inFlight(decision.leaseLeftMs, message)
    case 'mismatch': {
      const { differs } = decision
      announce('pawl:mismatch', () => ({ ...asked(), differs }))
      return { type: 'mismatch', differs }
    }
    case 'stuck': {
      const { reason } = decision
      const { recoveryPoint, lastError } = row
      // Announced once, when it happens: whoever listens may wake a person up.
      if (reservation.markedStuck)
        announce('pawl:stuck', () => ({ ...message(), recoveryPoint, reason, lastError }))
      return stuckOutcome(row, reason, lastError)
    }
    case 'refuse': {
      const { detail } = decision
      announce('pawl:refused', () => ({ ...message(), detail }))
      return { type: 'refused', pipeline: row.pipeline, version: row.version, detail }
    }
  }
}

function inFlight(leaseLeftMs: number | null, asked: () => KeyMessage): Outcome {
  const outcome = inFlightOutcome(leaseLeftMs, false)
  announce('pawl:in_flight', () => ({ ...asked(), retryAfterMs: outcome.retryAfterMs, leaseLeftMs }))
  return outcome
}

export function askedMessage(
  names: NameHasher,
  { scope, key }: { readonly scope: string; readonly key: string },
  { pipeline, version }: { readonly pipeline: string; readonly version: number },
): KeyMessage {
  return { scopeHash: names.hash(scope), keyHash: names.hash(scope, key), pipeline, version }
}
