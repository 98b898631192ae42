import { AsyncResource } from 'node:async_hooks'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { KitError } from '../kit-error.js'

/**
 * The async context of whoever starts the server becomes that of every request that it serves. If that were a phase's call, the
 * provider's own work would count as that phase's. So the server is started outside it.
 */
const outside = new AsyncResource('PAWL_FAKE_PROVIDER')

/** A server on a free port. Neither it nor its connections keep a process alive. */
export class ProviderServer {
  readonly #onRequest: RequestListener
  #listening: Promise<Server> | null = null
  #url: string | null = null
  #isClosed = false

  constructor(onRequest: RequestListener) {
    this.#onRequest = onRequest
  }

  get url(): string {
    if (this.#url !== null) return this.#url
    throw new KitError(
      'PAWL_KIT_NOT_STARTED',
      `provider.url: the fake provider ${this.#isClosed ? 'is closed' : 'has no address yet'}. ` +
        'Write `await provider.start()` first.',
    )
  }

  async start(): Promise<void> {
    this.#isClosed = false
    this.#listening ??= outside.runInAsyncScope(listen, null, this.#onRequest)
    const listening = this.#listening
    const { port } = (await listening).address() as AddressInfo
    // It may have been closed in the meantime.
    if (this.#listening === listening) this.#url = `http://127.0.0.1:${port}`
  }

  /** Returns its address, and starts it if nobody has. A closed one stays closed, so that no late request opens it again. */
  async reach(): Promise<string> {
    if (!this.#isClosed) await this.start()
    return this.url
  }

  async close(): Promise<void> {
    const listening = this.#listening
    this.#isClosed = true
    this.#listening = null
    this.#url = null
    if (listening === null) return
    const server = await listening
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
}

async function listen(onRequest: RequestListener): Promise<Server> {
  const server = createServer(onRequest)
  // Only clients end idle connections, because one that the server ends may be in use again at that very moment.
  server.keepAliveTimeout = 0
  server.on('connection', (socket) => socket.unref())
  server.listen(0, '127.0.0.1')
  server.unref()
  await once(server, 'listening')
  return server
}
