import {
  type EnqueueOutcome,
  InvalidInputError,
  type Outcome,
  PawlError,
  StoreAwayError,
  type StoredResponse,
} from '@pawl/core'
import { DEFAULT_RETRY_AFTER_MS } from './limits.js'
import { type Problem, problems } from './problems.js'

/** What the client gets. */
export type Answer =
  | {
      readonly type: 'response'
      readonly response: StoredResponse
      readonly replayed: boolean
      /** Until when it is replayed; null where it is not stored. */
      readonly expiresAt: Date | null
      /** When to come back; null where there is nothing to come back for. */
      readonly retryAfterMs: number | null
    }
  /** It runs, or will run, without the client. */
  | {
      readonly type: 'accepted'
      readonly location: string
      readonly isPreferred: boolean
      readonly retryAfterMs: number
    }
  | { readonly type: 'problem'; readonly problem: Problem }

/** The status of too many requests was asked for. */
export interface TooManyLookups {
  readonly type: 'limited'
  readonly limit: 'lookups'
  readonly of: 'scope'
  readonly max: number
  readonly perMs: number
  readonly retryAfterMs: number
}

/** What can be answered. */
export type Answerable =
  | Outcome
  | TooManyLookups
  | (Extract<EnqueueOutcome, { type: 'enqueued' }> & {
      /** Where to ask what became of it. */
      readonly location: string
      /** The client asked for this with `Prefer`. */
      readonly isPreferred: boolean
    })

/** The answer to every outcome: the table under "Answers" of `docs/http.md`. A test compares. */
export function answerTo(outcome: Answerable): Answer {
  switch (outcome.type) {
    case 'enqueued': {
      const { location, isPreferred } = outcome
      return { type: 'accepted', location, isPreferred, retryAfterMs: DEFAULT_RETRY_AFTER_MS }
    }
    case 'completed':
    case 'replayed': {
      const { response, expiresAt } = outcome
      return {
        type: 'response',
        response,
        replayed: outcome.type === 'replayed',
        expiresAt,
        retryAfterMs: null,
      }
    }
    case 'in_flight':
      return problem({ code: 'request_in_progress', retryAfterMs: outcome.retryAfterMs })
    case 'mismatch':
      return problem({ code: 'idempotency_key_reused' })
    case 'expired':
      return problem({ code: 'key_expired', keyId: outcome.keyId })
    case 'limited': {
      const { limit, of, max, perMs, retryAfterMs } = outcome
      if (limit === 'lookups') return tooManyLookups(outcome)
      const name = of === 'scope' ? limit : (`pipeline_${limit}` as const)
      return problem({ code: 'too_many_requests', retryAfterMs, limit: { name, max, perMs } })
    }
    case 'retry_later':
      return answerToRetryLater(outcome)
    case 'stuck':
      return problem({ code: 'request_stuck', keyId: outcome.keyId })
    case 'refused':
      return problem({ code: 'version_not_available', retryAfterMs: DEFAULT_RETRY_AFTER_MS })
    case 'unavailable':
      return problem({ code: 'store_unavailable', retryAfterMs: untilNextLook(outcome.error) })
  }
}

function tooManyLookups({ limit: name, max, perMs, retryAfterMs }: TooManyLookups): Answer {
  const detail = 'You have asked for the status of too many requests. Ask again later.'
  return problem({ code: 'too_many_requests', detail, retryAfterMs, limit: { name, max, perMs } })
}

function answerToRetryLater(outcome: Extract<Outcome, { type: 'retry_later' }>): Answer {
  const { response, reason, retryAfterMs } = outcome
  if (response !== null) return { type: 'response', response, replayed: false, expiresAt: null, retryAfterMs }
  const code = reason === 'unknown_error' ? 'unexpected_error' : 'temporarily_unavailable'
  return problem({ code, retryAfterMs })
}

/** Where the engine does not ask the database at present, it says when it will. */
function untilNextLook(error: unknown): number {
  return error instanceof StoreAwayError ? error.retryAfterMs : DEFAULT_RETRY_AFTER_MS
}

/** What to say about an error that `execute` throws: the client's mistakes are reported, the developer's are not. */
export function problemOf(error: unknown): Problem {
  if (error instanceof InvalidInputError) {
    const errors = error.issues.map(({ message, path }) => ({ detail: message, path }))
    if (error.omittedIssues === 0) return { code: 'invalid_input', errors }
    const detail = `${problems.invalid_input.detail} Problems not listed: ${error.omittedIssues}.`
    return { code: 'invalid_input', detail, errors }
  }
  if (!(error instanceof PawlError)) return { code: 'internal_error' }
  switch (error.code) {
    case 'PAWL_TOO_LARGE':
      return { code: 'request_too_large' }
    case 'PAWL_UNSUITABLE_KEY':
      return { code: 'idempotency_key_unsuitable' }
    default:
      return { code: 'internal_error' }
  }
}

function problem(of: Problem): Answer {
  return { type: 'problem', problem: of }
}
