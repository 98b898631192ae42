import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { MAX_PROVIDER_BODY_BYTES } from '../limits.js'

/** A request as the fake provider reads it. */
export interface FakeRequest {
  /** New for every request, such as `ef_…`: the id of its effect, if it has one. */
  readonly id: string
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly query: URLSearchParams
  /** Names are in lower case. */
  readonly headers: IncomingHttpHeaders
  /** The body as it came. */
  readonly body: string
  /** The parsed body, whatever its media type; undefined if it is not JSON. */
  readonly json: unknown
  /** The fields of a form-encoded body, as Stripe's SDK sends it; empty for any other body. */
  readonly form: URLSearchParams
}

/** Calls back as soon as the whole body is here. Never does if the client goes away before that. */
export function whenReceived(
  incoming: IncomingMessage,
  received: (bytes: Buffer, isTooLarge: boolean) => void,
): void {
  const chunks: Buffer[] = []
  let size = 0
  // A body that is too large is read to its end as well: a client that is still writing would lose the answer otherwise.
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

/** Methods that promise to change nothing. */
const QUESTIONS = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

export function isQuestion({ method }: FakeRequest): boolean {
  return QUESTIONS.has(method)
}

/**
 * Returns what has to be the same under one key. Providers compare what they have parsed, so neither the order of fields nor
 * headers matter.
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
    // It is nested too deeply for the stack. Then the order of its fields does matter.
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
