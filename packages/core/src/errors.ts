import { MAX_INPUT_ISSUES, MAX_ISSUE_LENGTH, MAX_ISSUE_PATH_LENGTH } from './limits.js'
import { shorten } from './shorten.js'

/**
 * Every code an error of Pawl can carry, with what it means. `docs/errors.md` has a section for each;
 * a test compares the two.
 */
export const errorCodes = {
  PAWL_INVALID_OPTION:
    'An option of createEngine, createBackground, createOperator, reconcile, migrate, stage, subscribe, close, or of an adapter, has a value it does not take.',
  PAWL_INVALID_PIPELINE: 'A pipeline is declared in a way that cannot work.',
  PAWL_INVALID_QUERY:
    'A query is defined in a way that cannot be compiled once, or was given values that it does not take.',
  PAWL_INVALID_REQUEST: 'What was passed to execute, inspect or resume does not name a key.',
  PAWL_UNSUITABLE_KEY: "A key is one of those that the engine's keyPolicy refuses, such as a card number.",
  PAWL_INVALID_INPUT: 'The input does not satisfy the schema of its pipeline.',
  PAWL_NOT_JSON: 'A value that has to be stored is not JSON.',
  PAWL_TOO_LARGE: 'A value that has to be stored is over its size cap.',
  PAWL_NOT_REGISTERED: 'The pipeline passed to execute is not one of those passed to createEngine.',
  PAWL_NOT_MIGRATED:
    'The tables of Pawl, or of graphile-worker, are not in the database, or are of another version.',
  PAWL_MISSING_RIGHT: 'The role of the pool may not do what Pawl needs with its tables.',
  PAWL_MIGRATION_BLOCKED: 'migrate could not lock the tables, because other transactions use them.',
  PAWL_OTHER_LAYOUT: 'migrate was asked for another layout than the tables have.',
  PAWL_UNSUPPORTED_SERVER:
    'The server is older than the oldest PostgreSQL that Pawl works with, or has no Citus where the layout needs it.',
  PAWL_INVALID_RESPONSE: 'respond() got a status, header or body that cannot be stored.',
  PAWL_INVALID_RESULT:
    'A phase returned something that is neither state nor a response nor retryLater(), or a sink returned no results.',
  PAWL_FOREIGN_IN_TRANSACTION: "A foreign request was made while a phase's transaction was open.",
  PAWL_SECOND_FOREIGN_REQUEST: 'A call made a second state-changing foreign request.',
  PAWL_NESTED_CHECKOUT: 'A phase asked engine.db for a second connection while its transaction was open.',
  PAWL_TRANSACTION_ENDED: 'A phase ended its own transaction with COMMIT or ROLLBACK.',
  PAWL_TRANSACTION_ABORTED: 'A phase caught and ignored a database error that had aborted its transaction.',
  PAWL_TRANSACTION_CLOSED: 'A phase used its tx after it had returned.',
  PAWL_STREAM_UNSUPPORTED: 'A query was streamed, which the driver does not support.',
  PAWL_CALL_TIMEOUT: 'A call did not answer in time.',
  PAWL_PHASE_TIMEOUT: 'The server ended the transaction of a phase before the phase returned.',
  PAWL_CONNECTION_LOST: 'The connection to PostgreSQL broke.',
  PAWL_NO_CONNECTION: 'No connection became available in time.',
  PAWL_STORE_AWAY:
    'PostgreSQL could not be reached several times in a row, so it was not asked. The error says when it will be.',
  PAWL_LIMITED:
    'The scope has looked up as many keys as its limits allow. The error says when it may look up another.',
  PAWL_KEY_WENT_BACK:
    'The recovery point of a key is earlier than a call that is on record: the database has lost commits.',
  PAWL_LEASE_LOST: 'Another holder took the key over.',
  PAWL_AMBIGUOUS_RESPONSE:
    'onError returned a final response to an error that does not say whether the call was executed.',
  PAWL_STORED_INPUT_REJECTED: 'A stored input no longer satisfies the schema of its pipeline.',
  PAWL_KEY_MISSING: 'A stored value was sealed with a key that is not there.',
  PAWL_SEALED:
    'A stored value does not open: it was changed or moved, or sealed with another key of the same id.',
  PAWL_CLOSING: 'The engine is closing and takes no new work.',
  PAWL_ROUTE_NOT_MARKED: 'request.pawl was used on a route without the idempotency option.',
  PAWL_PIPELINE_NOT_RUN: 'The handler of a marked route answered without running its pipeline.',
  PAWL_SECOND_RUN: 'A handler ran a second pipeline for one request.',
  PAWL_NO_SCOPE: 'The scope function returned nothing, so nobody owns the key.',
  PAWL_NO_BINDING: 'The bindTo function returned nothing that a key could be bound to.',
  PAWL_UNREADABLE_BODY: 'A body was parsed into something that cannot be compared with that of a retry.',
  PAWL_NOT_ATOMIC: 'request.tx was used outside an atomic handler.',
  PAWL_REPLY_IN_ATOMIC: 'An atomic handler answered by itself, or with something that cannot be stored.',
  PAWL_STATUS_NOT_AUTHORIZED:
    'A hook of a route looked at the body of a status request, which has none, and nothing else says who may see the status.',
  PAWL_UNPROTECTED_ROUTE: 'A route that changes state takes no idempotency key and is not marked as exempt.',
} as const

/** The `code` of an error of Pawl. Stable: safe to switch over. `docs/errors.md` explains each. */
export type PawlErrorCode = keyof typeof errorCodes

/**
 * The base of every error that Pawl throws or records: it has a stable `code` and a message that says what to do.
 *
 * @example
 * if (error instanceof PawlError && error.code === 'PAWL_INVALID_REQUEST') return reply.status(400).send(error.message)
 */
export class PawlError extends Error {
  override readonly name: string = 'PawlError'
  /** Identifies the error: the message may change, the code does not. */
  readonly code: PawlErrorCode

  constructor(code: PawlErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}

/** `instanceof PawlError` for anything that was thrown. A proxy that throws when asked does not count as one. */
export function isPawlError(thrown: unknown): thrown is PawlError {
  try {
    return thrown instanceof PawlError
  } catch {
    return false
  }
}

/** Whether a connection broke before its statement was answered: it may or may not have been executed. */
export function isConnectionLost(thrown: unknown): boolean {
  return isPawlError(thrown) && thrown.code === 'PAWL_CONNECTION_LOST'
}

/**
 * PostgreSQL could not be reached several times in a row, so this request did not wait for it: the engine's breaker was
 * open. Nothing was reserved or run. `cause` is why it could not be reached the last time.
 *
 * @example
 * if (outcome.type === 'unavailable' && outcome.error instanceof StoreAwayError) retryAfter(outcome.error.retryAfterMs)
 */
export class StoreAwayError extends PawlError {
  override readonly name = 'StoreAwayError'
  /** When the next request is let through to look. */
  readonly retryAfterMs: number

  constructor(retryAfterMs: number, cause: unknown) {
    super(
      'PAWL_STORE_AWAY',
      `PostgreSQL could not be reached several times in a row. The next request that looks whether it is back is let through in ${retryAfterMs} ms.`,
      { cause },
    )
    this.retryAfterMs = retryAfterMs
  }
}

/**
 * The scope has reached its limit of look-ups (`limits.lookups`). Nothing was read.
 *
 * @example
 * if (error instanceof LimitedError) reply.code(429).header('retry-after', Math.ceil(error.retryAfterMs / 1_000))
 */
export class LimitedError extends PawlError {
  override readonly name = 'LimitedError'
  /** The most look-ups that the scope may make at once, and again in each `perMs`. */
  readonly max: number
  /** In which time. */
  readonly perMs: number
  /** When there will be room for another. */
  readonly retryAfterMs: number

  constructor({ max, perMs }: { readonly max: number; readonly perMs: number }, retryAfterMs: number) {
    super(
      'PAWL_LIMITED',
      `The scope has looked up ${max} keys in ${perMs} ms, which is its limit (limits.lookups). It may look up another in ${retryAfterMs} ms.`,
    )
    this.max = max
    this.perMs = perMs
    this.retryAfterMs = retryAfterMs
  }
}

/** One thing that a schema found wrong, and where. */
export interface InputIssue {
  /** The schema's own words. */
  readonly message: string
  /** Such as `items.0.qty`; empty for the input as a whole. */
  readonly path: string
}

/** The input does not satisfy the pipeline's schema. Nothing was reserved or run. */
export class InvalidInputError extends PawlError {
  override readonly name = 'InvalidInputError'
  /** What the schema found: the first twenty issues, shortened where they are long. */
  readonly issues: readonly InputIssue[]
  /** How many more there were. */
  readonly omittedIssues: number

  /** `found`: how many issues there are in all, where `issues` does not hold all of them. */
  constructor(pipeline: string, issues: readonly InputIssue[], found = issues.length) {
    const kept = issues.slice(0, MAX_INPUT_ISSUES).map(({ message, path }) => ({
      message: shorten(message, MAX_ISSUE_LENGTH),
      path: shorten(path, MAX_ISSUE_PATH_LENGTH),
    }))
    const omitted = found - kept.length
    const list = kept.map(({ message, path }) => `${path === '' ? 'input' : path}: ${message}`).join('; ')
    const more = omitted > 0 ? `; and ${omitted} more` : ''
    super('PAWL_INVALID_INPUT', `The input of pipeline '${pipeline}' is not valid: ${list}${more}`)
    this.issues = kept
    this.omittedIssues = omitted
  }
}
