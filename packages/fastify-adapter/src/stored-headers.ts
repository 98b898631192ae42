import { FORBIDDEN_HEADERS } from '@pawl/core/internal'

/**
 * Headers that are true of one answer but not of its replay, which may reach another device or another page days later.
 * Everything else that an operation sets is stored: a header that protects the content, known or not, must not be lost
 * with the replay.
 */
const OF_THE_MOMENT = new Set([
  // Of this connection, this hop or this server.
  'alt-svc',
  'proxy-authentication-info',
  'proxy-connection',
  'server',
  'via',
  'x-powered-by',
  // Of this moment.
  'age',
  'clear-site-data',
  'preference-applied',
  'refresh',
  'retry-after',
  'server-timing',
  'x-response-time',
  'x-runtime',
  // Of whoever is logged in.
  'authentication-info',
  'authorization',
  'set-cookie2',
  'www-authenticate',
  'x-access-token',
  'x-auth-token',
  'x-csrf-token',
  'x-session-id',
  'x-session-token',
  'x-xsrf-token',
  // Identifiers of this request.
  'cf-ray',
  'correlation-id',
  'request-id',
  'traceparent',
  'traceresponse',
  'tracestate',
  'x-amzn-requestid',
  'x-amzn-trace-id',
  'x-cloud-trace-context',
  'x-correlation-id',
  'x-request-id',
  'x-trace-id',
])

/** The same by prefix: what depends on the origin of this request, and what is left of a limit. */
const OF_THE_MOMENT_PREFIXES = ['access-control-', 'ratelimit', 'x-ratelimit', 'x-rate-limit', 'x-b3-']

/** What the adapter itself says about this very answer. */
const OWN_PREFIXES = ['idempotency-', 'idempotent-', 'stripe-should-retry']

/** Which headers of an operation's response are stored, and sent again with its replay. */
export class StoredHeaders {
  readonly #header: string
  readonly #added: ReadonlySet<string>

  /** `added`: headers to store although they hold only for the moment. */
  constructor(header: string, added: readonly string[]) {
    this.#header = header
    this.#added = new Set(added)
  }

  /** A lower-case name. */
  has(name: string): boolean {
    if (!this.canHave(name)) return false
    return this.#added.has(name) || !isOfTheMoment(name)
  }

  /** Whether it could be stored if somebody asked for that. */
  canHave(name: string): boolean {
    return !FORBIDDEN_HEADERS.has(name) && name !== this.#header && !beginsWith(name, OWN_PREFIXES)
  }
}

function isOfTheMoment(name: string): boolean {
  return OF_THE_MOMENT.has(name) || beginsWith(name, OF_THE_MOMENT_PREFIXES)
}

function beginsWith(name: string, prefixes: readonly string[]): boolean {
  return prefixes.some((prefix) => name.startsWith(prefix))
}
