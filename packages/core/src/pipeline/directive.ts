import { PawlError } from '../errors.js'
import { MAX_INT32 } from '../limits.js'
import { encodeJson, type Jsonable } from './json-value.js'

/** A response as it is stored, sent and replayed: the same bytes each time. */
export interface StoredResponse {
  /** 200 to 599. */
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  /** The body's bytes; empty where there is none. `new Response(body, …)` accepts them. */
  readonly body: Buffer<ArrayBuffer>
}

/** What `respond` returns: the answer that ends the request when a phase returns it. */
export class Respond {
  /** @internal keeps other objects from passing for this one */
  readonly kind = 'respond'
  /** What is stored and sent. */
  readonly response: StoredResponse

  constructor(response: StoredResponse) {
    this.response = response
  }
}

/** What `retryLater` returns: keep the recovery point, give the key back, try again later. */
export class RetryLater {
  /** @internal keeps other objects from passing for this one */
  readonly kind = 'retry_later'
  /** Recorded, announced, and returned in the outcome. */
  readonly error: unknown
  /** See `RetryLaterOptions`. */
  readonly notExecuted: boolean
  /** Null lets the back-off grow by itself. */
  readonly afterMs: number | null

  constructor(error: unknown, notExecuted: boolean, afterMs: number | null) {
    this.error = error
    this.notExecuted = notExecuted
    this.afterMs = afterMs
  }
}

/** What a phase may return instead of state: the result of `respond` or of `retryLater`. */
export type Directive = Respond | RetryLater

/**
 * Headers that are never stored: they belong to one connection or one moment, and a stored cookie is another user's
 * session.
 */
export const FORBIDDEN_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'set-cookie',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/**
 * What `respond` and `respondBytes` take besides status and body.
 *
 * @example
 * respond(201, { id }, { headers: { location: `/rides/${id}` } })
 */
export interface RespondOptions {
  /** Stored and replayed with the body. `set-cookie`, `date` and connection headers are refused. */
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * Ends the request with a JSON response. 2xx to 4xx are stored together with the phase's rows and replayed from then
 * on; 5xx, 408, 425 and 429 roll the phase back, are sent, and a retry resumes.
 *
 * @example
 * return respond(201, { id: state.rideId }, { headers: { location: `/rides/${state.rideId}` } })
 */
export function respond<Body = undefined>(
  status: number,
  body?: Body & Jsonable<Body>,
  options: RespondOptions = {},
): Respond {
  checkStatus(status)
  if (body === undefined) {
    return new Respond({ status, headers: checkHeaders(options.headers), body: Buffer.alloc(0) })
  }
  // The engine caps the size when it stores the response, where it knows the phase.
  const text = encodeJson(body, {
    what: `the body passed to respond(${status})`,
    maxBytes: Number.MAX_SAFE_INTEGER,
  })
  const headers = { 'content-type': 'application/json; charset=utf-8', ...checkHeaders(options.headers) }
  return new Respond({ status, headers, body: Buffer.from(text) })
}

/**
 * Ends the request with bytes as they are: a PDF, CSV, anything that is not JSON.
 *
 * @example
 * return respondBytes(200, pdf, { headers: { 'content-type': 'application/pdf' } })
 */
export function respondBytes(
  status: number,
  body: Uint8Array | string,
  options: RespondOptions = {},
): Respond {
  checkStatus(status)
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) {
    throw new PawlError('PAWL_INVALID_RESPONSE', 'respondBytes() takes a string or a Uint8Array as body.')
  }
  return new Respond({ status, headers: checkHeaders(options.headers), body: Buffer.from(body) })
}

/**
 * What `retryLater` takes besides the error.
 *
 * @example
 * retryLater(error, { afterMs: 30_000 }) // the provider said Retry-After: 30
 */
export interface RetryLaterOptions {
  /**
   * Your word that the provider did not execute the call, and never will under the key it was sent. The next attempt then
   * goes out under a new provider key. Say it only when the provider itself said so (a stored 500, a refused request).
   */
  readonly notExecuted?: boolean
  /** Back-off before the next automatic attempt, such as the provider's Retry-After. Default: grows by itself. */
  readonly afterMs?: number
}

/**
 * Keeps the recovery point, gives the key back, and lets a retry or the completer resume later.
 *
 * @example
 * onError: ({ error }) => isCardDeclined(error) ? respond(402, { code: 'declined' }) : retryLater(error)
 */
export function retryLater(error?: unknown, options: RetryLaterOptions = {}): RetryLater {
  const afterMs = options.afterMs ?? null
  if (afterMs !== null && !(Number.isFinite(afterMs) && afterMs >= 0)) {
    throw new PawlError(
      'PAWL_INVALID_RESULT',
      `retryLater(): afterMs is ${afterMs}; it takes 0 or more milliseconds.`,
    )
  }
  const boundedMs = afterMs === null ? null : Math.min(afterMs, MAX_INT32)
  return new RetryLater(error, options.notExecuted === true, boundedMs)
}

/** 5xx, and the 4xx that mean "not now": they never become final. */
export function isTransientStatus(status: number): boolean {
  return status >= 500 || status === 408 || status === 425 || status === 429
}

/** The headers' size on the wire: each with a colon, a space and its line ending. */
export function headerBytes({ headers }: StoredResponse): number {
  return Object.entries(headers).reduce((bytes, [name, value]) => bytes + name.length + value.length + 4, 0)
}

function checkStatus(status: number): void {
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw new PawlError(
      'PAWL_INVALID_RESPONSE',
      `respond(): status is ${typeof status === 'number' ? status : `a ${typeof status}`}; it takes a number from 200 to 599.`,
    )
  }
}

function checkHeaders(headers: RespondOptions['headers']): Record<string, string> {
  const checked: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers ?? {})) {
    const lower = name.toLowerCase()
    if (FORBIDDEN_HEADERS.has(lower)) {
      throw new PawlError(
        'PAWL_INVALID_RESPONSE',
        `respond(): the header '${lower}' must not be stored and replayed.`,
      )
    }
    if (
      !/^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(lower) ||
      typeof value !== 'string' ||
      !/^[\t\x20-\x7e\x80-\xff]*$/.test(value)
    ) {
      throw new PawlError(
        'PAWL_INVALID_RESPONSE',
        `respond(): the header '${lower}' has a name or value that HTTP cannot carry.`,
      )
    }
    checked[lower] = value
  }
  return checked
}
