import { PawlError, type Respond, respondBytes } from '@pawl/core'
import { FORBIDDEN_HEADERS, isTransientStatus } from '@pawl/core/internal'
import type { FastifyReply } from 'fastify'
import { nameOfRoute } from './name-of-route.js'
import type { StoredHeaders } from './stored-headers.js'

/** Status and headers of a reply, as hooks left them. */
export interface ReplyHead {
  readonly status: number
  readonly headers: ReturnType<FastifyReply['getHeaders']>
}

export function headOf(reply: FastifyReply): ReplyHead {
  return { status: reply.statusCode, headers: reply.getHeaders() }
}

/**
 * Undoes what a handler set, because it runs again after a conflict in its transaction, or its answer is not sent at all.
 */
export function restoreHead(reply: FastifyReply, { status, headers }: ReplyHead): void {
  reply.code(status)
  for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name)
  reply.headers(headers)
}

/** What a handler returns. It must not be `undefined`: Fastify's callback style does not work with transactions. */
export async function awaitHandler(reply: FastifyReply, handler: () => unknown): Promise<unknown> {
  const returned = handler()
  if (returned === undefined)
    throw refusedAnswer(reply, 'returned nothing. Make it async, or return what to answer')
  return returned
}

/** What a handler returned, with the status and headers it set, as the bytes that Fastify would send. */
export function captureReply(
  reply: FastifyReply,
  head: ReplyHead,
  payload: unknown,
  storedHeaders: StoredHeaders,
): Respond {
  if (reply.raw.headersSent) throw refusedAnswer(reply, 'wrote to reply.raw')
  const { bytes, contentType } = serialize(reply, payload)
  const { statusCode } = reply
  const isSentOnly = isTransientStatus(statusCode)
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    // What hooks set here, they set again for the replay.
    if (value === undefined || value === head.headers[name]) continue
    if (storedHeaders.has(name) || (isSentOnly && !FORBIDDEN_HEADERS.has(name)))
      headers[name] = [value].flat().join(', ')
  }
  if (contentType !== null) headers['content-type'] = contentType
  return respondBytes(statusCode, bytes, { headers })
}

interface Serialized {
  readonly bytes: Uint8Array | string
  /** Null keeps what the handler set, if anything. */
  readonly contentType: string | null
}

/** Does the same as `reply.send`. */
function serialize(reply: FastifyReply, payload: unknown): Serialized {
  // As on a plain route of Fastify: nothing is stored, and the application's error handler answers.
  if (payload instanceof Error) throw payload
  if (payload === reply) throw refusedAnswer(reply, 'returned its reply. Return what to answer')
  if (payload === undefined) return { bytes: '', contentType: null }
  if (isStream(payload)) {
    throw refusedAnswer(reply, 'returned a stream, which cannot be stored. Return text, bytes or JSON')
  }
  const given = reply.getHeader('content-type')
  if (ArrayBuffer.isView(payload)) {
    const bytes = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength)
    return { bytes, contentType: given === undefined ? 'application/octet-stream' : null }
  }
  if (typeof payload === 'string' && given === undefined) {
    return { bytes: payload, contentType: 'text/plain; charset=utf-8' }
  }
  const contentType = withCharset(given === undefined ? 'application/json' : String(given))
  return { bytes: typeof payload === 'string' ? payload : encode(reply, payload, contentType), contentType }
}

function withCharset(contentType: string): string {
  const [mediaType = ''] = contentType.split(';', 1)
  const isComplete = !mediaType.includes('json') || /;\s*charset=/i.test(contentType)
  return isComplete ? contentType : `${contentType}; charset=utf-8`
}

/** Uses the route's response schema. `reply.serialize` does not know schemas that are declared per content type. */
function encode(reply: FastifyReply, payload: unknown, contentType: string): string | Uint8Array {
  const statuses = [`${reply.statusCode}`, `${`${reply.statusCode}`[0]}xx`, 'default']
  const schema = statuses.map((status) => reply.getSerializationFunction(status)).find(Boolean) as unknown
  if (typeof schema !== 'object') return reply.serialize(payload) as string | Uint8Array
  const byType = schema as Record<string, ((payload: unknown) => string) | undefined>
  const [mediaType = ''] = contentType.toLowerCase().split(';', 1)
  const stringify = byType[mediaType.trim()] ?? byType['*/*'] ?? JSON.stringify
  return stringify(payload)
}

function isStream(payload: unknown): boolean {
  if (typeof payload !== 'object' || payload === null) return false
  const { pipe, getReader } = payload as Record<string, unknown>
  if (typeof pipe === 'function' || typeof getReader === 'function') return true
  return Symbol.asyncIterator in payload || Object.prototype.toString.call(payload) === '[object Response]'
}

export function refusedAnswer({ request }: FastifyReply, what: string): PawlError {
  return new PawlError('PAWL_REPLY_IN_ATOMIC', `The atomic handler of ${nameOfRoute(request)} ${what}.`)
}
