import { describe, expect, test } from 'vitest'
import { classifyCallError } from '../../packages/core/src/run/classify-error.js'
import { isAmbiguous } from '../../packages/core/src/run/is-ambiguous.js'

const failed = (members: object, options?: ErrorOptions) =>
  Object.assign(new Error('failed', options), members)
const named = (name: string, members: object = {}, options?: ErrorOptions) =>
  failed({ name, ...members }, options)
const socketError = (code: string) => failed({ code, errno: -104, syscall: 'read' })
/** An error as `callErrorFromStatus` of @grpc/grpc-js makes it. */
const grpcError = (code: number) => failed({ code, details: 'from the server', metadata: {} })
/** An error as axios makes it. Since 1.7 it copies the status of the answer, if there is one. */
const axiosError = (code: string, status?: number) =>
  named('AxiosError', {
    code,
    config: {},
    request: {},
    ...(status === undefined ? {} : { response: { status }, status }),
  })

/** Two questions: whether a call's error leaves open what happened, and whether a retry counts as an attempt. */
const ambiguous = { true: 'ambiguous', false: 'an answer' } as const
const judge = (error: unknown, declared = false) =>
  `${ambiguous[`${isAmbiguous(error, declared)}`]}, ${classifyCallError(error)}`

describe('an error without an answer is ambiguous whatever the phase declares, and tried again until the key is too old', () => {
  test.each([
    ['a reset connection', socketError('ECONNRESET')],
    ['a refused connection', socketError('ECONNREFUSED')],
    ['a TLS handshake that failed', failed({ code: 'EPROTO' })],
    ['an expired certificate', failed({ code: 'CERT_HAS_EXPIRED' })],
    ['a name that does not resolve', failed({ code: 'EAI_AGAIN', syscall: 'getaddrinfo' })],
    ['an answer cut off by Node', failed({ code: 'ERR_STREAM_PREMATURE_CLOSE' })],
    ['an answer that is no HTTP', failed({ code: 'HPE_INVALID_CONSTANT' })],
    ['an HTTP/2 stream', failed({ code: 'ERR_HTTP2_STREAM_ERROR' })],
    ['an HTTP/2 session', failed({ code: 'ERR_HTTP2_GOAWAY_SESSION' })],
    ['undici', named('SocketError', { code: 'UND_ERR_SOCKET' })],
    ['fetch without a cause', new TypeError('fetch failed')],
    ['fetch with one', new TypeError('fetch failed', { cause: socketError('ECONNRESET') })],
    ['an answer cut off under fetch', new TypeError('terminated', { cause: named('SocketError') })],
    ['axios', axiosError('ERR_NETWORK')],
    ['axios, out of time', axiosError('ECONNABORTED')],
    ['got', named('ReadError', { code: 'ERR_READING_RESPONSE_STREAM', response: { statusCode: 200 } })],
    ['got, out of time', named('TimeoutError', { code: 'ETIMEDOUT' })],
    ['node-fetch', named('FetchError', { type: 'system' })],
    ["Stripe's SDK", named('Error', { type: 'StripeConnectionError', detail: socketError('ECONNRESET') })],
    ["OpenAI's SDK", new (class APIConnectionError extends Error {})('Connection error.')],
    ['an abort', new DOMException('aborted', 'AbortError')],
    ['a time-out', new DOMException('late', 'TimeoutError')],
    ['happy eyeballs', Object.assign(new AggregateError([socketError('ECONNREFUSED')]), {})],
    ['CANCELLED of gRPC', grpcError(1)],
    ['DEADLINE_EXCEEDED of gRPC', grpcError(4)],
    ['UNAVAILABLE of gRPC', grpcError(14)],
    ['any of them as a cause', new Error('wrapped', { cause: socketError('ETIMEDOUT') })],
    [
      'any of them behind a status of the application',
      failed({ status: 400 }, { cause: socketError('EPIPE') }),
    ],
  ])('%s', (_, error) => {
    expect(judge(error)).toBe('ambiguous, transient')
    expect(judge(error, true)).toBe('ambiguous, transient')
  })
})

describe('an answer that says "not now" is ambiguous unless declared, and tried again until the key is too old', () => {
  test.each([
    ['a status of fetch wrappers', failed({ status: 503 })],
    ['a status of got', named('HTTPError', { response: { statusCode: 500 } })],
    ['a status of axios', axiosError('ERR_BAD_RESPONSE', 502)],
    ['a status of the AWS SDK', failed({ $metadata: { httpStatusCode: 500 } })],
    ['a key in use at Stripe', failed({ type: 'StripeAPIError', statusCode: 409 })],
    ['too early', failed({ status: 425 })],
    ['too many', failed({ status: 429 })],
    ['too slow', failed({ status: 408 })],
    ['RESOURCE_EXHAUSTED of gRPC', grpcError(8)],
    ['ABORTED of gRPC', grpcError(10)],
    ['any of them as a cause', new Error('wrapped', { cause: failed({ response: { status: 502 } }) })],
  ])('%s', (_, error) => {
    expect(judge(error)).toBe('ambiguous, transient')
    expect(judge(error, true)).toBe('an answer, transient')
  })
})

describe('an error that does not say what happened is ambiguous unless declared, and counts as an attempt', () => {
  test.each([
    ["the application's own error", new Error('no such customer')],
    ['an error with a code of its own', failed({ code: 'card_declined' })],
    ['a bug', new TypeError("Cannot read properties of undefined (reading 'id')")],
    ['an answer that cannot be parsed', new SyntaxError('Unexpected end of JSON input')],
    ['a bug behind a status', failed({ status: 400 }, { cause: new RangeError('bug') })],
    [
      'an answer that was fine, and could not be read',
      named('ParseError', { response: { statusCode: 201 } }),
    ],
    ['a redirect', failed({ status: 302 })],
    ['UNKNOWN of gRPC', grpcError(2)],
    ['ALREADY_EXISTS of gRPC', grpcError(6)],
    ['INTERNAL of gRPC', grpcError(13)],
    ['DATA_LOSS of gRPC', grpcError(15)],
    ['a number that is no status of gRPC', failed({ code: 9 })],
    [
      'an error for a client of one’s own: http-errors',
      failed({ status: 400, statusCode: 400, expose: true }),
    ],
    ['two statuses that contradict each other', failed({ status: 402, response: { status: 200 } })],
    ['a status that is no number', failed({ status: '402' })],
    ['a text', 'declined'],
    ['nothing', undefined],
  ])('%s', (_, error) => {
    expect(judge(error)).toBe('ambiguous, unknown')
    expect(judge(error, true)).toBe('an answer, unknown')
  })
})

test('an error for a key that the provider knows with another request is no answer by itself, and counts as an attempt', () => {
  const reused = failed({ type: 'StripeIdempotencyError', rawType: 'idempotency_error', statusCode: 400 })
  expect(judge(reused)).toBe('ambiguous, unknown')
})

describe('an answer of the provider may become final, and counts as an attempt if it is tried again anyway', () => {
  test.each([
    ['a declined card', failed({ type: 'StripeCardError', statusCode: 402, code: 'card_declined' })],
    ['a refusal of axios', axiosError('ERR_BAD_REQUEST', 422)],
    ['a refusal of got', named('HTTPError', { response: { statusCode: 404 } })],
    ['a refusal of ofetch', named('FetchError', { status: 400, statusCode: 400, response: { status: 400 } })],
    ['a refusal of the AWS SDK', failed({ $metadata: { httpStatusCode: 403 } })],
    ['INVALID_ARGUMENT of gRPC', grpcError(3)],
    ['FAILED_PRECONDITION of gRPC', grpcError(9)],
    ['any of them as a cause', new Error('declined', { cause: failed({ statusCode: 402 }) })],
  ])('%s', (_, error) => {
    expect(judge(error)).toBe('an answer, unknown')
  })
})

test('reading causes that form a circle ends, and so does reading causes that branch without end', () => {
  const circle = failed({})
  circle.cause = circle
  expect(judge(circle)).toBe('ambiguous, unknown')
  const errors: unknown[] = []
  const tree = failed({ errors })
  errors.push(tree, tree, tree)
  tree.cause = tree
  expect(judge(tree)).toBe('ambiguous, unknown')
})

test('an error whose members throw when they are read does not say what happened', () => {
  const hostile = new Proxy(new Error('hostile'), {
    get: () => {
      throw new Error('no')
    },
  })
  expect(judge(hostile)).toBe('ambiguous, unknown')
})

test('of causes that never end, only the first are read', () => {
  let made = 0
  const endless = (): Error =>
    Object.defineProperty(new Error('caused'), 'cause', {
      get: () => (++made < 10_000 ? endless() : undefined),
    })
  expect(judge(endless())).toBe('ambiguous, unknown')
  expect(made).toBeLessThan(1_000)
})
