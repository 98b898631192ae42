import type { StoredResponse } from './directive.js'

/** Why a key waits for a person. */
export type StuckReason =
  /** It crashed or met an unknown error too often at one point. */
  | 'attempts_exhausted'
  /** It grew older than `maxAgeMs`. */
  | 'too_old'
  /** A call that must not be repeated was interrupted. */
  | 'unknown_outcome'
  /** The provider may have forgotten the key, and there is no `reconcile` to ask. */
  | 'window_passed'
  /** A phase ended its own transaction, and may have committed rows without its recovery point. */
  | 'transaction_ended'

/** Why a request has to be sent again. */
export type RetryReason =
  /** A phase answered with 5xx, 408, 425 or 429, or with retryLater(). */
  | 'asked_by_phase'
  /** A time-out, a broken connection, a conflict that did not go away. */
  | 'transient_error'
  /** An exception nobody expected. It is counted, and the key is stuck at the cap. */
  | 'unknown_error'
  /** `reconcile` says absent, but the call may still arrive. */
  | 'outcome_pending'
  /** The engine is closing; the key was given back. */
  | 'closing'

/** What became of a request: a closed union, to be switched over exhaustively. */
export type Outcome =
  /** It ran to its end here. `response` is what was stored. */
  | {
      readonly type: 'completed'
      readonly keyId: string
      readonly response: StoredResponse
      readonly expiresAt: Date
    }
  /** It had finished before; this is the stored response, byte for byte. */
  | {
      readonly type: 'replayed'
      readonly keyId: string
      readonly response: StoredResponse
      readonly expiresAt: Date
    }
  /** Another holder runs it. */
  | {
      readonly type: 'in_flight'
      /** When to come back: a second, or less if the lease ends sooner. */
      readonly retryAfterMs: number
      /** How long the other holder may go on without a sign of life; null where its row was locked. */
      readonly leaseLeftMs: number | null
      /** It was taken over from this very execution, which wrote nothing after that. */
      readonly fencedOff: boolean
    }
  /** The key belongs to another request, or to another pipeline. Nothing changed. */
  | { readonly type: 'mismatch'; readonly differs: 'request' | 'pipeline' }
  /**
   * The key was deleted after its retention, and an effect of it is on record: it is not run a second time. `keyId`: the id
   * that the key had.
   */
  | { readonly type: 'expired'; readonly keyId: string; readonly settledAt: Date }
  /**
   * The scope has reached a limit, and the key is new. Nothing was written. `retryAfterMs`: when there will be room, as far as
   * that is known.
   */
  | {
      readonly type: 'limited'
      readonly limit: 'new_keys' | 'unfinished' | 'stored_bytes'
      /** Whether it is the limit of all pipelines together, or of this one. */
      readonly of: 'scope' | 'pipeline'
      /** The most that the scope may have. */
      readonly max: number
      /** In which time, for new keys. */
      readonly perMs: number | null
      readonly retryAfterMs: number
    }
  /** Not finished; the recovery point is kept, nothing is stored. A retry with the same key resumes. */
  | {
      readonly type: 'retry_later'
      readonly keyId: string
      readonly reason: RetryReason
      readonly retryAfterMs: number
      readonly recoveryPoint: string
      readonly error: unknown
      /** The 5xx, 408, 425 or 429 response, where a phase returned one: it is sent, not stored. */
      readonly response: StoredResponse | null
    }
  /** No automatic step may touch the key any more: a person decides. */
  | {
      readonly type: 'stuck'
      readonly keyId: string
      readonly reason: StuckReason
      readonly recoveryPoint: string
      /** The last error, redacted, as recorded with the key. */
      readonly lastError: string | null
    }
  /** The key runs under a version or definition that is not registered here. Nothing was written. */
  | { readonly type: 'refused'; readonly pipeline: string; readonly version: number; readonly detail: string }
  /** The store cannot answer. No user code ran. */
  | { readonly type: 'unavailable'; readonly error: unknown }

/** What became of `enqueue`. */
export type EnqueueOutcome =
  /** It will be run, or is being run, in the background. `fresh`: this very call enqueued it. */
  | { readonly type: 'enqueued'; readonly keyId: string; readonly fresh: boolean }
  | Extract<
      Outcome,
      {
        type:
          | 'replayed'
          | 'in_flight'
          | 'mismatch'
          | 'expired'
          | 'limited'
          | 'stuck'
          | 'refused'
          | 'unavailable'
      }
    >

/** What became of `resume`: as for `execute`, or the key is no longer there. */
export type ResumeOutcome =
  | Exclude<Outcome, { type: 'mismatch' | 'expired' | 'limited' }>
  | { readonly type: 'gone' }
