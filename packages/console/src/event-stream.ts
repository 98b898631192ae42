import type { ServerResponse } from 'node:http'
import { HEARTBEAT_MS, MAX_STREAM_MS, MAX_UNREAD_MS, STREAM_END_MS, STREAM_RETRY_MS } from './limits.js'

/**
 * Server-sent events to one browser. Each event replaces the one before, so a browser that reads slowly misses some, and nothing piles
 * up here; one that does not read at all is dropped.
 */
export class EventStream {
  readonly #response: ServerResponse
  readonly #heartbeat: NodeJS.Timeout
  readonly #end: NodeJS.Timeout
  /** What came while the browser was not reading: the last of it. */
  #waiting: string | null = null
  /** Kept here, because responses of HTTP/2 do not say `writableNeedDrain`. */
  #isFull = false
  #unread: NodeJS.Timeout | null = null
  /** Resolves when the connection is closed, by whomever. */
  readonly closed: Promise<void>

  constructor(response: ServerResponse, headers: Readonly<Record<string, string | number | string[]>>) {
    this.#response = response
    response.writeHead(200, {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      // Some proxies collect answers before they pass them on.
      'x-accel-buffering': 'no',
      // Nothing follows a stream on its connection, and a server that closes would wait for what might.
      ...(response.req.httpVersionMajor === 1 && { connection: 'close' }),
    })
    response.on('drain', () => this.#drained())
    // A connection that breaks also closes.
    response.on('error', () => {})
    // Whoever left while it was found out who they are is not told again that they did.
    this.closed = isGone(response)
      ? Promise.resolve()
      : new Promise((resolve) => response.once('close', () => resolve()))
    this.#heartbeat = setInterval(() => this.#write(':\n\n'), HEARTBEAT_MS).unref()
    this.#end = setTimeout(() => this.close(), MAX_STREAM_MS).unref()
    void this.closed.then(() => this.#clear())
    this.#write(`retry: ${STREAM_RETRY_MS}\n\n`)
  }

  send(event: string, data: unknown): void {
    this.#write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
  }

  /** The browser comes back after a moment, unless it was told not to. */
  close(): void {
    this.#response.end()
    this.#dropIn(STREAM_END_MS)
  }

  #write(frame: string): void {
    if (this.#isFull) {
      // A heartbeat is not worth to wait: what waits already will be one.
      if (frame.startsWith('event:')) this.#waiting = frame
      return
    }
    this.#isFull = !this.#response.write(frame)
    if (this.#isFull) this.#dropIn(MAX_UNREAD_MS)
  }

  /** Unless it has read by then, or is gone. */
  #dropIn(ms: number): void {
    if (this.#unread !== null) clearTimeout(this.#unread)
    this.#unread = setTimeout(() => this.#response.destroy(), ms).unref()
  }

  #drained(): void {
    if (this.#unread !== null) clearTimeout(this.#unread)
    this.#unread = null
    this.#isFull = false
    const frame = this.#waiting
    this.#waiting = null
    if (frame !== null) this.#write(frame)
  }

  #clear(): void {
    clearInterval(this.#heartbeat)
    clearTimeout(this.#end)
    if (this.#unread !== null) clearTimeout(this.#unread)
  }
}

/** Whether its connection is closed, or with HTTP/2 its stream. */
function isGone(response: ServerResponse): boolean {
  const { stream } = response as { readonly stream?: { readonly destroyed: boolean } | null }
  return stream === undefined ? response.destroyed : stream?.destroyed !== false
}
