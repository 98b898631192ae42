import { isSocketError } from '../driver/postgres-error.js'

/** What an error and its causes say about the call that threw it. */
export interface CallEvidence {
  /** The network failed, or we stopped waiting: whatever the provider did, it could not say so. */
  readonly noAnswer: boolean
  /** Every HTTP status that an error in the chain carries. */
  readonly statuses: readonly number[]
  /** The same, of errors that the application has made for its own clients: no provider has answered with those. */
  readonly ownStatuses: readonly number[]
  /** The same for gRPC. */
  readonly grpcCodes: readonly number[]
  /** The provider knows the idempotency key from a different request, and that one was executed. */
  readonly keyReused: boolean
  /** One of JavaScript's own errors: a bug, or an answer that could not be read, perhaps long after the request was sent. */
  readonly bug: boolean
}

/** More than anybody nests errors; causes can also form a cycle. */
const MAX_ERRORS = 32

export function evidenceOf(error: unknown): CallEvidence {
  const found = { noAnswer: false, keyReused: false, bug: false }
  const statuses: number[] = []
  const ownStatuses: number[] = []
  const grpcCodes: number[] = []
  for (const link of chainOf(error)) {
    const answered = statusesOf(link)
    if (isForOwnClients(link)) ownStatuses.push(...answered)
    else statuses.push(...answered)
    const grpcCode = grpcCodeOf(link)
    if (grpcCode !== null) grpcCodes.push(grpcCode)
    // An error that has a status was made from an answer, whatever it calls itself.
    const isFromAnswer = answered.some((status) => status >= 400)
    if (!isFromAnswer && saysNoAnswer(link)) found.noAnswer = true
    else if (isBug(link)) found.bug = true
    if (isKeyReused(link)) found.keyReused = true
  }
  return { ...found, statuses, ownStatuses, grpcCodes }
}

type Link = Readonly<Record<string, unknown>>

/** The error, its causes, what Stripe's SDK keeps as `detail`, and the members of an AggregateError. */
function chainOf(error: unknown): Set<Link> {
  const links = new Set<Link>()
  const waiting = [error]
  while (waiting.length > 0 && links.size < MAX_ERRORS) {
    const link = waiting.shift()
    if (typeof link !== 'object' || link === null || links.has(link as Link)) continue
    links.add(link as Link)
    const { cause, detail, errors } = link as Link
    waiting.push(cause, detail)
    if (Array.isArray(errors))
      waiting.push(...errors.filter((each) => each instanceof Error).slice(0, MAX_ERRORS))
  }
  return links
}

/** Looks where well-known HTTP clients keep the status of an answer that they throw: fetch wrappers, axios, got, AWS. */
function statusesOf(link: Link): number[] {
  const { status, statusCode, response, $metadata } = link
  const { status: axios, statusCode: got } = (response ?? {}) as Link
  const { httpStatusCode: aws } = ($metadata ?? {}) as Link
  return [status, statusCode, axios, got, aws].filter((value) => typeof value === 'number')
}

/** Errors of http-errors, which Koa and Express create too: they say what to answer, not what was answered. */
function isForOwnClients({ expose }: Link): boolean {
  return typeof expose === 'boolean'
}

const GRPC_CODES = 16

function grpcCodeOf({ code, details, metadata }: Link): number | null {
  if (typeof code !== 'number' || !Number.isInteger(code) || code < 1 || code > GRPC_CODES) return null
  return typeof details === 'string' || typeof metadata === 'object' ? code : null
}

/** Node's sockets, TLS, HTTP parser, HTTP/2 and streams; undici; axios; got. */
const NO_ANSWER_CODES = new RegExp(
  `^(?:${[
    'E(?:CONN|NET|HOST|ADDR|AI_|PIPE|TIMEDOUT|SOCKET|PROTO|NOTCONN|NOTFOUND|MFILE|NFILE|NOBUFS)',
    'ERR_(?:HTTP2|SSL|TLS|STREAM_PREMATURE_CLOSE|STREAM_DESTROYED|SOCKET|NETWORK|CANCELED|READING_RESPONSE_STREAM)',
    'HPE_',
    'UND_ERR_(?!INVALID_ARG|NOT_SUPPORTED|RESPONSE)',
    'CERT_|UNABLE_TO_(?:GET|VERIFY)|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH',
    'ABORT_ERR',
  ].join('|')})`,
)

/** Time-outs, aborts and lost connections, as SDKs name their classes. */
const NO_ANSWER_NAMES =
  /^(?:AbortError|CancelError|CanceledError|FetchError|ReadError|\w*(?:Connection|Connect|Network|Socket|Timeout|TimedOut)(?:Error|Exception))$/

/** fetch says this of anything that kept it from an answer, or from the rest of one. */
const FETCH_MESSAGES = new Set(['fetch failed', 'terminated', 'other side closed'])

/** CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE: what the client's library reports when the server did not answer. */
const NO_ANSWER_GRPC_CODES = new Set([1, 4, 14])

function saysNoAnswer(link: Link): boolean {
  const { name, message, code, type, constructor } = link
  if (isSocketError(link) || (typeof code === 'string' && NO_ANSWER_CODES.test(code))) return true
  if (typeof code === 'number' && NO_ANSWER_GRPC_CODES.has(code)) return true
  const names = [name, type, typeof constructor === 'function' ? constructor.name : null]
  if (names.some((each) => typeof each === 'string' && NO_ANSWER_NAMES.test(each))) return true
  return name === 'TypeError' && typeof message === 'string' && FETCH_MESSAGES.has(message)
}

/** As Stripe words it, and providers that follow it. */
function isKeyReused({ type, rawType }: Link): boolean {
  return [type, rawType].some((each) => each === 'idempotency_error' || each === 'StripeIdempotencyError')
}

const JAVASCRIPT_ERRORS = [TypeError, SyntaxError, RangeError, ReferenceError]

function isBug(link: Link): boolean {
  return JAVASCRIPT_ERRORS.some((kind) => link instanceof kind)
}
