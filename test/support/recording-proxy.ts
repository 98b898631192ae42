import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/** A real socket between pool and server that writes down what clients send, and changes nothing of it. */
export class RecordingProxy {
  readonly url: string
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #sent: { readonly application: string; readonly bytes: Buffer }[] = []

  private constructor(server: Server, url: string) {
    this.#server = server
    this.url = url
  }

  static async start(targetUrl: string): Promise<RecordingProxy> {
    const target = new URL(targetUrl)
    const server = createServer({ noDelay: true })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const url = new URL(targetUrl)
    url.hostname = '127.0.0.1'
    url.port = String((server.address() as AddressInfo).port)
    const proxy = new RecordingProxy(server, url.href)
    server.on('connection', (client) =>
      proxy.#join(
        client,
        connect({ port: Number(target.port || 5432), host: target.hostname, noDelay: true }),
      ),
    )
    return proxy
  }

  /** What clients of this `application_name` have sent since the last time. What others have sent is forgotten. */
  take(application: string): Buffer {
    const sent = this.#sent.filter((each) => each.application === application)
    this.#sent = []
    return Buffer.concat(sent.map(({ bytes }) => bytes))
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #join(client: Socket, server: Socket): void {
    for (const socket of [client, server]) {
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => this.#sockets.delete(socket))
    }
    let application: string | null = null
    client.on('data', (chunk: Buffer) => {
      if (application !== null) this.#sent.push({ application, bytes: chunk })
      application ??= applicationIn(chunk)
      server.write(chunk)
    })
    // An answer is passed on whole, however the network cut it, so that a client is woken once for each.
    let answer: Buffer[] = []
    server.on('data', (chunk: Buffer) => {
      answer.push(chunk)
      const bytes = Buffer.concat(answer)
      if (!endsInReadyForQuery(bytes) && !isHandshake(bytes)) return
      answer = []
      client.write(bytes)
    })
    server.on('close', () => client.destroy())
    client.on('close', () => server.destroy())
  }
}

/** The message that says who the client is has names and values, each followed by a NUL. */
function applicationIn(startup: Buffer): string | null {
  return /\0application_name\0([^\0]*)\0/.exec(startup.toString('latin1'))?.[1] ?? null
}

/** The message that ends every answer: `Z`, length 5, transaction status. */
function endsInReadyForQuery(bytes: Buffer): boolean {
  const at = bytes.length - 6
  return at >= 0 && bytes.readUInt8(at) === 0x5a && bytes.readUInt32BE(at + 1) === 5
}

/** `R`: the server asks who the client is. Its first answers wait for the client. */
function isHandshake(bytes: Buffer): boolean {
  return bytes.readUInt8(0) === 0x52 && bytes.readUInt32BE(5) !== 0
}
