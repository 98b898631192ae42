import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ConsoleContext } from '../console-context.js'
import { ConsoleError } from '../console-error.js'
import { EventStream } from '../event-stream.js'
import { MAX_STREAMS } from '../limits.js'
import { readQuery } from '../parse-query.js'
import { tellFailure } from '../tell-failure.js'

/** The streams of one console, so that all of them can be ended. */
export class EventRoute {
  readonly #console: ConsoleContext
  readonly #streams = new Set<EventStream>()
  #closed = false

  constructor(console: ConsoleContext) {
    this.#console = console
  }

  /** Answers with events for as long as the browser listens. */
  open(request: FastifyRequest, reply: FastifyReply): void {
    readQuery(request.query, [])
    if (this.#streams.size >= MAX_STREAMS || this.#closed)
      throw new ConsoleError('busy', `${MAX_STREAMS} pages are listening already, or the console is closing.`)
    const headers = reply.getHeaders() as Record<string, string | number | string[]>
    reply.hijack()
    const stream = new EventStream(reply.raw, headers)
    this.#streams.add(stream)
    const stop = this.#console.live.listen((news) => {
      if (news.type === 'flow') stream.send('flow', news.flow)
      else stream.send('gone', tellFailure(news.failure).error)
    })
    void stream.closed.then(() => {
      stop()
      this.#streams.delete(stream)
    })
  }

  /** Ends all of them. A server does not close while a connection is open. */
  close(): void {
    this.#closed = true
    for (const stream of this.#streams) stream.close()
  }
}
