import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { MAX_PROVIDER_BODY_BYTES } from '../limits.js'

/** A request as the fake provider reads it. */
export interface FakeRequest {
  /** Fresh for every request: the name of its effect, if it gets one. Such as `ef_…`. */
  readonly id: string
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly query: URLSearchParams
  /** Names in lower case. */
  readonly headers: IncomingHttpHeaders
  /** As it came. */
  readonly body: string
  /** The body as JSON, whatever its media type; undefined if it is none. */
  readonly json: unknown
  /** The fields of a form-encoded body, as Stripe's SDK sends them; empty for any other. */
  readonly form: URLSearchParams
}

/** Calls back as soon as all of the body is here; never, if the client goes away before. */
export function whenReceived(
  incoming: IncomingMessage,
  received: (bytes: Buffer, isTooLarge: boolean) => void,
): void {
  const chunks: Buffer[] = []
  let size = 0
  // Also read where it is too large: a client that is still writing would lose the answer with the connection.
  incoming.on('data', (chunk: Buffer) => {
    size += chunk.length
    if (size <= MAX_PROVIDER_BODY_BYTES) chunks.push(chunk)
  })
  incoming.on('end', () => received(Buffer.concat(chunks), size > MAX_PROVIDER_BODY_BYTES))
}

export function fakeRequestOf(incoming: IncomingMessage, bytes: Buffer): FakeRequest {
  const { method = 'GET', url = '/', headers } = incoming
  const [path = '/', ...query] = url.split('?')
  const body = bytes.toString('utf8')
  const isForm = /^application\/x-www-form-urlencoded\b/i.test(headers['content-type'] ?? '')
  return {
    id: `ef_${randomUUID()}`,
    method,
    path,
    query: new URLSearchParams(query.join('?')),
    headers,
    body,
    json: isForm ? undefined : parsed(body),
    form: new URLSearchParams(isForm ? body : ''),
  }
}

/** The methods that promise to change nothing. */
const QUESTIONS = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

export function isQuestion({ method }: FakeRequest): boolean {
  return QUESTIONS.has(method)
}

/**
 * What has to be the same under one key. Providers compare what they have parsed, so that the order of fields does not
 * matter, nor do headers.
 */
export function parametersOf(request: FakeRequest): string {
  const { method, path, query, body, json, form } = request
  const content = json === undefined ? (form.size === 0 ? body : sorted(form)) : sortedJson(json, body)
  return JSON.stringify([method, path, sorted(query), content])
}

function sorted(parameters: URLSearchParams): string {
  const copy = new URLSearchParams(parameters)
  copy.sort()
  return copy.toString()
}

function sortedJson(json: unknown, body: string): string {
  try {
    return JSON.stringify(json, (_name, value: unknown) =>
      isPlainObject(value) ? sortedMembers(value) : value,
    )
  } catch {
    // Nested deeper than the stack: then the order of its fields matters.
    return body
  }
}

export function isPlainObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function sortedMembers(value: object): object {
  return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
