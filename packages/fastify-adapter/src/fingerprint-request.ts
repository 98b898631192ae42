import { PawlError, type JsonValue } from '@pawl/core'
import { fingerprintOf } from '@pawl/core/internal'
import type { FastifyRequest } from 'fastify'
import { copyPlain, isPlain, isTooDeep } from './copy-plain.js'
import { nameOfRoute } from './name-of-route.js'
import type { RouteSettings } from './route-settings.js'
import type { Problem } from './problems.js'

/** What a client sent, as it was parsed: validation has not yet added defaults, coerced or removed anything. */
export interface SentRequest<Body = unknown, Query = unknown> {
  /** The body as the content-type parser returned it. Members that validation would add may be missing. */
  readonly body: Body
  /** The query string as it was parsed. */
  readonly query: Query
}

/** Chooses which parts of the body and query make two requests the same. What it returns has to be JSON, or bytes. */
export type ChooseFingerprint<Body = unknown, Query = unknown> = (
  sent: SentRequest<Body, Query>,
) => object | string | number | boolean | null

/** Everything about the request that has to be the same in a retry. Taken before validation, used after it. */
export class SentFingerprint {
  readonly #request: FastifyRequest
  readonly #choose: ChooseFingerprint<never, never> | null
  readonly #constraints: string | null
  readonly #content: JsonValue | SentRequest | PawlError | Refused

  constructor(request: FastifyRequest, { fingerprint: choose, constraints }: RouteSettings) {
    this.#request = request
    this.#choose = choose
    this.#constraints = constraints
    this.#content = choose === null ? digest(request) : copy(request)
  }

  /** The problem to report for content that is nested too deeply; null where it is not. */
  get tooDeep(): Problem | null {
    return this.#content instanceof Refused && this.#content.isTooDeep ? this.#content.problem : null
  }

  /**
   * Returns the fingerprint for the engine, or what is wrong with the content. Throws where the developer has to say what
   * counts. `chosen`: what the pipeline itself says counts.
   */
  get(chosen?: JsonValue): { readonly type: 'comparable'; readonly fingerprint: JsonValue } | Refused {
    const { method, originalUrl } = this.#request
    const path = pathOf(originalUrl)
    const constraints = this.#constraints ?? undefined
    if (chosen !== undefined)
      return { type: 'comparable', fingerprint: { chosen, constraints, method, path } }
    if (this.#content instanceof PawlError) throw this.#content
    if (this.#content instanceof Refused) return this.#content
    const content =
      this.#choose === null
        ? (this.#content as JsonValue)
        : this.#chosen(this.#choose, this.#content as SentRequest<never, never>)
    if (content instanceof Refused) return content
    return { type: 'comparable', fingerprint: { constraints, content, method, path } }
  }

  #chosen(choose: ChooseFingerprint<never, never>, sent: SentRequest<never, never>): string | Refused {
    try {
      return hex(choose(sent))
    } catch (cause) {
      // Usually it is part of what was sent, and then the client is responsible.
      if (isJson(this.#request) && isOfClient(whyNotComparable(sent.body))) return new Refused(false)
      const why = cause instanceof Error ? cause.message : String(cause)
      throw new PawlError(
        'PAWL_UNREADABLE_BODY',
        `idempotency.fingerprint of ${nameOfRoute(this.#request)} failed: ${why} It has to return JSON or bytes, synchronously.`,
        { cause },
      )
    }
  }
}

/** The client sent JSON that nothing can be done with, such as a thousand brackets, or 1e999. */
class Refused {
  readonly type = 'refused'
  readonly isTooDeep: boolean
  readonly problem: Problem = {
    code: 'invalid_input',
    detail:
      'The content of this request cannot be stored: it is nested too deeply, or contains a number that is too large.',
  }

  constructor(tooDeep: boolean) {
    this.isTooDeep = tooDeep
  }
}

/** Hashed at once: Ajv changes body and query in place, and a copy would cost more. */
function digest(request: FastifyRequest): JsonValue | PawlError | Refused {
  const { body, query } = request
  try {
    return {
      body: body === undefined ? undefined : hex(body),
      query: isEmpty(query) ? OF_NO_QUERY : hex(query),
    }
  } catch (error) {
    if (!(error instanceof PawlError)) throw error
    if (!isJson(request) || !isOfClient(error)) return unreadable(request, error)
    return new Refused(/nested deeper/.test(error.message))
  }
}

/** For a function of the user, which is called after validation: before that, any garbage may be in the body. */
function copy(request: FastifyRequest): SentRequest | Refused {
  const { body, query } = request
  if (isJson(request) && isTooDeep(body)) return new Refused(true)
  return { body: copyPlain(body), query: copyPlain(query) }
}

/**
 * Whether the query is empty, as in most requests. What the application's own parser made of it does not count: it may
 * only look empty.
 */
function isEmpty(query: unknown): boolean {
  return typeof query === 'object' && query !== null && isPlain(query) && Object.keys(query).length === 0
}

const OF_NO_QUERY = hex({})

function hex(value: unknown): string {
  return fingerprintOf(value as JsonValue).toString('hex')
}

function whyNotComparable(value: unknown): unknown {
  try {
    hex(value)
    return null
  } catch (error) {
    return error
  }
}

/** Whether JSON text itself can cause the error. All others come from what a parser made of the text. */
function isOfClient(error: unknown): boolean {
  return error instanceof PawlError && /nested deeper|-?Infinity/.test(error.message)
}

/** The path as it was sent: before `rewriteUrl`, without the query, and without the host that a proxy may put before it. */
export function pathOf(url: string): string {
  const [path = ''] = url.replace(/^https?:\/\/[^/?#]*/i, '').split(/[?#]/, 1)
  return path === '' ? '/' : path
}

function isJson({ headers }: FastifyRequest): boolean {
  return /^[^;]*\bjson\b/i.test(headers['content-type'] ?? '')
}

function unreadable(request: FastifyRequest, cause: PawlError): PawlError {
  return new PawlError(
    'PAWL_UNREADABLE_BODY',
    `The body of ${nameOfRoute(request)} (${request.headers['content-type'] ?? 'no content type'}) was parsed into ` +
      'something that is neither JSON nor bytes, so a retry cannot be distinguished from another request. ' +
      'Give the route idempotency.fingerprint, which says what counts.',
    { cause },
  )
}
