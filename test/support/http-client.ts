import { once } from 'node:events'
import { type IncomingHttpHeaders, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { FastifyInstance } from 'fastify'

/** What came over the wire, neither decompressed nor decoded. */
export interface Received {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

export interface ToSend {
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  /** It is sent as JSON, unless it is text or bytes. */
  readonly body?: unknown
  /** The client goes away when it is aborted. */
  readonly signal?: AbortSignal
}

/** Makes the app listen on its own port, and returns the address. */
export async function listen(app: FastifyInstance): Promise<string> {
  return app.listen({ port: 0, host: '127.0.0.1' })
}

/** Sends a request on its own connection, as `ann` and under the key `k1` unless it says otherwise. */
export async function send(url: string, toSend: ToSend = {}): Promise<Received> {
  const { method = 'POST', path = '/rides', body, signal } = toSend
  const isJson = body !== undefined && typeof body !== 'string' && !(body instanceof Uint8Array)
  const headers = {
    authorization: 'Bearer ann',
    'idempotency-key': 'k1',
    ...(isJson ? { 'content-type': 'application/json' } : {}),
    ...toSend.headers,
  }
  const sent = request(new URL(path, url), {
    method,
    headers,
    agent: false,
    ...(signal === undefined ? {} : { signal }),
  })
  const answered = once(sent, 'response')
  sent.end(isJson ? JSON.stringify(body) : body)
  const [response] = (await answered) as [Parameters<typeof buffer>[0] & RawResponse]
  return { status: response.statusCode, headers: response.headers, body: await buffer(response) }
}

interface RawResponse {
  readonly statusCode: number
  readonly headers: IncomingHttpHeaders
}

/** Headers of a moment or a connection, which differ between any two answers. */
const OF_THE_MOMENT = new Set([
  'connection',
  'date',
  'idempotency-replayed',
  'keep-alive',
  'transfer-encoding',
])

/** What a replay has to have in common with the first answer. */
export function lasting({ status, headers, body }: Received): unknown {
  const kept = Object.entries(headers).filter(([name]) => !OF_THE_MOMENT.has(name))
  // It is text, because finding a difference in a megabyte of numbers takes seconds.
  return { status, headers: Object.fromEntries(kept), body: body.toString('latin1') }
}

/** A connection that a test writes to byte by byte. */
export async function openSocket(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

/** A ride as it looks on the wire. */
export function rawRide(amount: number, key = 'k1'): string {
  const body = JSON.stringify({ amount })
  return [
    'POST /rides HTTP/1.1',
    'host: rides.test',
    'authorization: Bearer ann',
    `idempotency-key: ${key}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n')
}
