import { announce, hashName, type KeyMessage } from '../announce/announce.js'
import { LOCKED_RETRY_MS, type Reservation } from '../key/reserve-key.js'
import type { Outcome } from '../pipeline/outcome.js'

/** What an execution that got no grant is told, and what is announced of it. */
export function reservationOutcome(
  reservation: Exclude<Reservation, { type: 'granted' | 'gone' }>,
  asked: KeyMessage,
): Outcome {
  switch (reservation.type) {
    case 'unavailable': {
      const { error } = reservation
      announce('pawl:unavailable', () => ({ error }))
      return { type: 'unavailable', error }
    }
    case 'locked':
      announce('pawl:in_flight', () => ({ ...asked, retryAfterMs: LOCKED_RETRY_MS }))
      return { type: 'in_flight', retryAfterMs: LOCKED_RETRY_MS, fencedOff: false }
    case 'decided':
      return decidedOutcome(reservation, asked)
  }
}

function decidedOutcome(reservation: Extract<Reservation, { type: 'decided' }>, asked: KeyMessage): Outcome {
  const { row, decision } = reservation
  const message = () => ({ ...asked, pipeline: row.pipeline, version: row.version, keyId: row.id })
  switch (decision.type) {
    case 'replay': {
      announce('pawl:replayed', message)
      return {
        type: 'replayed',
        keyId: row.id,
        response: decision.response,
        expiresAt: new Date(decision.expiresMs),
      }
    }
    case 'in_flight': {
      const retryAfterMs = decision.leaseLeftMs
      announce('pawl:in_flight', () => ({ ...message(), retryAfterMs }))
      return { type: 'in_flight', retryAfterMs, fencedOff: false }
    }
    case 'mismatch': {
      const { differs } = decision
      announce('pawl:mismatch', () => ({ ...asked, differs }))
      return { type: 'mismatch', differs }
    }
    case 'stuck': {
      const { reason } = decision
      announce('pawl:stuck', () => ({ ...message(), recoveryPoint: row.recoveryPoint, reason }))
      return { type: 'stuck', keyId: row.id, reason, recoveryPoint: row.recoveryPoint }
    }
    case 'refuse': {
      const { detail } = decision
      announce('pawl:refused', () => ({ ...message(), detail }))
      return { type: 'refused', pipeline: row.pipeline, version: row.version, detail }
    }
  }
}

export function askedMessage(scope: string, key: string, pipeline: string, version: number): KeyMessage {
  return { scopeHash: hashName(scope), keyHash: hashName(scope, key), pipeline, version }
}
