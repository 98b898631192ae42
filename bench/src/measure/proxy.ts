import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { DelayLine } from './delay-line.js'
import { Wire } from './wire.js'

/** What passed through the proxy so far. */
export interface Traffic {
  readonly statements: number
  readonly roundTrips: number
  /** Statements cannot be counted. */
  readonly isEncrypted: boolean
}

const DEFAULT_PORT = 5432

/** Moves a PostgreSQL server further away, and counts what passes. */
export class Proxy {
  readonly #server: Server
  readonly #target: { readonly host: string; readonly port: number }
  readonly #line = new DelayLine()
  readonly #wires: Wire[] = []

  constructor(targetUrl: string) {
    const { hostname: host, port } = new URL(targetUrl)
    this.#target = { host, port: Number(port || DEFAULT_PORT) }
    this.#server = createServer({ noDelay: true }, (client) => this.#join(client))
  }

  /** Returns the port that it listens on. */
  async listen(): Promise<number> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return (this.#server.address() as AddressInfo).port
  }

  /** Half of it each way, from now on. */
  delayBy(roundTripMs: number): void {
    this.#line.delayMs = roundTripMs / 2
  }

  /** Takes no new connections. */
  close(): void {
    this.#server.close()
  }

  traffic(): Traffic {
    return {
      statements: this.#wires.reduce((sum, wire) => sum + wire.statements, 0),
      roundTrips: this.#wires.reduce((sum, wire) => sum + wire.roundTrips, 0),
      isEncrypted: this.#wires.some((wire) => wire.isEncrypted),
    }
  }

  #join(client: Socket): void {
    const server = connect({ ...this.#target, noDelay: true })
    const wire = new Wire()
    this.#wires.push(wire)
    client.on('data', (chunk: Buffer) => {
      wire.fromClient(chunk)
      this.#line.put(() => server.write(chunk))
    })
    server.on('data', (chunk: Buffer) => {
      this.#line.put(() => {
        wire.fromServer(chunk)
        client.write(chunk)
      })
    })
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      // When one side breaks, both are closed.
      socket.on('error', () => {})
      socket.on('close', () => this.#line.put(() => other.destroy()))
    }
  }
}
