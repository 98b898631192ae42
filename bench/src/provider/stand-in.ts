import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { DELAY_HEADER } from './charge.js'

/** The payments provider: remembers every charge by its key, takes as long as it is asked to, and may refuse. */
export class StandIn {
  readonly server: Server
  readonly #charges = new Map<string, string>()
  /** While set, every charge is answered with 503 and nothing happens. */
  isRefusing = false

  constructor() {
    this.server = createServer((request, response) => this.#handle(request, response))
    // Contenders keep their connections, and idle for longer than Node's five seconds.
    this.server.keepAliveTimeout = 0
  }

  /** How many charges there are; a repeated key does not count. */
  get count(): number {
    return this.#charges.size
  }

  /** Forgets what earlier scenarios charged: nobody needs it, and it would only fill the memory. */
  forget(): void {
    this.#charges.clear()
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    request.resume()
    request.on('end', () => {
      if (request.method === 'POST' && request.url === '/charges') this.#charge(request, response)
      else if (request.method === 'GET' && request.url === '/count')
        send(response, 200, { count: this.count })
      else send(response, 404, { error: 'no such resource' })
    })
  }

  #charge(request: IncomingMessage, response: ServerResponse): void {
    const { 'idempotency-key': key } = request.headers
    if (typeof key !== 'string') return send(response, 400, { error: 'no Idempotency-Key' })
    if (this.isRefusing) return send(response, 503, { error: 'refused' })
    let id = this.#charges.get(key)
    if (id === undefined) {
      id = `ch_${randomUUID()}`
      this.#charges.set(key, id)
    }
    const charge = { id }
    const delayMs = Number(request.headers[DELAY_HEADER] ?? 0)
    if (delayMs > 0) setTimeout(() => send(response, 200, charge), delayMs)
    else send(response, 200, charge)
  }
}

function send(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body)
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
  })
  response.end(text)
}
