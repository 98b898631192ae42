import type { Attributes } from '@opentelemetry/api'
import type { EnqueueOutcome, Outcome, ResumeOutcome } from '@pawl/core'
import type { Duplicate } from '../metrics/top-scopes.js'

/** Any outcome of an engine. */
export type AnyOutcome = Outcome | EnqueueOutcome | ResumeOutcome

/** What an outcome adds to its span. Nothing that a client or a provider sent is in it. */
export function outcomeAttributes(outcome: AnyOutcome): Attributes {
  switch (outcome.type) {
    case 'completed':
    case 'replayed':
      return { 'pawl.key.id': outcome.keyId, 'pawl.response.status': outcome.response.status }
    case 'enqueued':
      return { 'pawl.key.id': outcome.keyId, 'pawl.key.fresh': outcome.fresh }
    case 'expired':
      return { 'pawl.key.id': outcome.keyId }
    case 'in_flight':
      return { 'pawl.fenced_off': outcome.fencedOff }
    case 'mismatch':
      return { 'pawl.differs': outcome.differs }
    case 'limited':
      return { 'pawl.limit': outcome.limit, 'pawl.limit.of': outcome.of }
    case 'retry_later':
      return {
        'pawl.key.id': outcome.keyId,
        'pawl.retry.reason': outcome.reason,
        'pawl.recovery_point': outcome.recoveryPoint,
      }
    case 'stuck':
      return {
        'pawl.key.id': outcome.keyId,
        'pawl.stuck.reason': outcome.reason,
        'pawl.recovery_point': outcome.recoveryPoint,
      }
    case 'refused':
    case 'unavailable':
    case 'gone':
      return {}
  }
}

/** Which kind of duplicate a request was, if it was one. What is enqueued again is, too. */
export function duplicateOf(outcome: AnyOutcome): Duplicate | null {
  switch (outcome.type) {
    case 'replayed':
    case 'in_flight':
    case 'mismatch':
      return outcome.type
    case 'enqueued':
      return outcome.fresh ? null : 'in_flight'
    default:
      return null
  }
}

/**
 * What went wrong, for the span of a request that did not get an answer because of us or a provider; null where nothing did. Clients
 * that repeat themselves, send another request or too many are no failure of ours.
 */
export function failureOf(outcome: AnyOutcome): { readonly type: string; readonly error: unknown } | null {
  switch (outcome.type) {
    case 'retry_later':
      return outcome.reason === 'asked_by_phase' || outcome.reason === 'outcome_pending'
        ? null
        : { type: outcome.reason, error: outcome.error }
    case 'stuck':
      return { type: outcome.reason, error: outcome.lastError === null ? null : new Error(outcome.lastError) }
    case 'refused':
      return { type: 'refused', error: new Error(outcome.detail) }
    case 'unavailable':
      return { type: 'unavailable', error: outcome.error }
    default:
      return null
  }
}
