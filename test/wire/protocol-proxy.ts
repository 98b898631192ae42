import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { type Decide, ProxiedConnection } from './proxied-connection.js'

export type { Decide, Verdict } from './proxied-connection.js'

/**
 * Stands between a client and PostgreSQL, reads every message of both, and asks `decide` what is to become of each.
 * The client knows nothing of it, so what is tested is what ships.
 */
export class ProtocolProxy {
  readonly host = '127.0.0.1'
  readonly port: number
  /** It is asked about every message. If it is null, all of them pass. */
  decide: Decide | null = null
  /** Batches that wrote more than once without a BEGIN. */
  readonly loneWrites: (readonly string[])[] = []
  readonly #server: Server
  readonly #connections = new Set<ProxiedConnection>()
  #opened = 0

  private constructor(server: Server, target: { readonly host: string; readonly port: number }) {
    this.#server = server
    this.port = (server.address() as AddressInfo).port
    server.on('connection', (client) => {
      const upstream = connect({ ...target, noDelay: true, allowHalfOpen: true })
      const connection = new ProxiedConnection(
        ++this.#opened,
        client,
        upstream,
        () => this.decide,
        (statements) => void this.loneWrites.push(statements),
      )
      this.#connections.add(connection)
      connection.onceClosed(() => this.#connections.delete(connection))
    })
  }

  /** Listens on a free port of this machine, and passes everything on to the target. */
  static async start(target: { readonly host: string; readonly port: number }): Promise<ProtocolProxy> {
    const server = createServer({ noDelay: true, allowHalfOpen: true })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new ProtocolProxy(server, target)
  }

  /** How many connections there have been so far. */
  get opened(): number {
    return this.#opened
  }

  /** Breaks every connection, and accepts no more. */
  async close(): Promise<void> {
    for (const connection of this.#connections) connection.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }
}
