import { isPawlError } from '../errors.js'
import { Respond, type RetryLater, type StoredResponse } from '../pipeline/directive.js'
import type { RetryReason, StuckReason } from '../pipeline/outcome.js'
import type { Intent } from '../storage/keys/key-row.js'
import type { TrailEntry } from '../storage/keys/trail.js'
import { classifyCallError, classifyError, type ErrorClass } from './classify-error.js'

/** Why a phase did not commit, and how its key is given back. */
export interface Failure {
  readonly type: 'failed'
  readonly phase: string
  readonly reason: RetryReason
  readonly error: unknown
  /** Whether it counts towards the cap on attempts. Everything else is capped by the key's age. */
  readonly isAttempt: boolean
  /** To be sent, not stored. */
  readonly response: StoredResponse | null
  /** What stays known of the phase's call. */
  readonly intent: Intent | null
  readonly raiseEpoch: boolean
  /** A call is still under way: the lease is left to run out. */
  readonly keepLease: boolean
  /** Null if the back-off grows by itself. */
  readonly afterMs: number | null
}

/** What one step came to. `committed`: the recovery points that were reached in its transaction. */
export type StepResult =
  | { readonly type: 'advanced'; readonly committed: readonly TrailEntry[] }
  | {
      readonly type: 'finished'
      readonly response: StoredResponse
      readonly expiresMs: number
      readonly committed: readonly TrailEntry[]
    }
  /** Nothing moved, but more is known: decide again. */
  | { readonly type: 'again' }
  | Failure
  | {
      readonly type: 'stuck'
      readonly phase: string
      readonly reason: StuckReason
      readonly intent: Intent | null
      readonly error: unknown
    }

/** A failure with nothing special about it. */
export function failure(
  phase: string,
  reason: RetryReason,
  error: unknown,
  more: Partial<Failure> = {},
): Failure {
  return {
    type: 'failed',
    phase,
    reason,
    error,
    isAttempt: reason === 'unknown_error',
    response: null,
    intent: null,
    raiseEpoch: false,
    keepLease: false,
    afterMs: null,
    ...more,
  }
}

/** A failure that the phase itself asked for. */
export function failureAsked(
  phase: string,
  directive: Respond | RetryLater | null,
  more: Partial<Failure> = {},
): Failure {
  if (directive instanceof Respond) {
    return failure(phase, 'asked_by_phase', null, { ...more, response: directive.response })
  }
  return failure(phase, 'asked_by_phase', directive?.error, { ...more, afterMs: directive?.afterMs ?? null })
}

/** A failure caused by an error, with the reason that follows from it. */
export function failureBy(phase: string, error: unknown, more: Partial<Failure> = {}): Failure {
  return failure(phase, reasonOf(error, classifyError), error, more)
}

/** The same, for an error of `call` or `reconcile`. */
export function failureByCall(phase: string, error: unknown, more: Partial<Failure> = {}): Failure {
  return failure(phase, reasonOf(error, classifyCallError), error, more)
}

function reasonOf(error: unknown, classify: (error: unknown) => ErrorClass): RetryReason {
  if (isPawlError(error) && error.code === 'PAWL_CLOSING') return 'closing'
  return classify(error) === 'unknown' ? 'unknown_error' : 'transient_error'
}
