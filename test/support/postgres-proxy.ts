import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'

/** What becomes of the next COMMIT that passes. */
export type CommitFault =
  /** It reaches the server, and the connection is cut once the server has answered. */
  | 'answer_lost'
  /** The connection is cut before it reaches the server. */
  | 'commit_lost'
  /** The client's connection is cut, and the server gets the COMMIT only when `deliverCommit` is called. */
  | 'commit_late'

/** What becomes of the next statement with a certain text: the same as for a COMMIT, or it never reaches the server. */
export type StatementFault = 'answer_lost' | 'statement_lost'

/** A real socket between pool and server that loses what it is told to lose. */
export class PostgresProxy {
  readonly url: string
  /** Resolves when the server has answered a late COMMIT. */
  answered: Promise<void> = Promise.resolve()
  /** How much the server has sent, on all connections together. */
  bytesFromServer = 0
  /** How often it was asked to end what a backend is doing. */
  cancelRequests = 0
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #fault: CommitFault | null = null
  #skip = 0
  #onFault: (() => void) | null = null
  #lateCommit: (() => void) | null = null
  #stalled = false
  #endNew = false
  #garbled: { readonly text: string; readonly by: string } | null = null
  #answered: { readonly text: string; readonly by: string } | null = null
  #statement: { readonly text: string; readonly fault: StatementFault } | null = null

  private constructor(server: Server, url: string) {
    this.#server = server
    this.url = url
  }

  static async start(targetUrl: string, port = 0): Promise<PostgresProxy> {
    const target = new URL(targetUrl)
    const server = createServer()
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    const url = new URL(targetUrl)
    url.hostname = '127.0.0.1'
    url.port = String((server.address() as AddressInfo).port)
    const proxy = new PostgresProxy(server, url.href)
    server.on('connection', (client) =>
      proxy.#join(client, connect(Number(target.port || 5432), target.hostname)),
    )
    return proxy
  }

  /** Arms a fault for a later COMMIT, after letting `skip` of them pass. Resolves when it has struck. */
  armCommit(fault: CommitFault, skip = 0): Promise<void> {
    this.#fault = fault
    this.#skip = skip
    return new Promise((resolve) => {
      this.#onFault = resolve
    })
  }

  /** Arms a fault for the next statement with parameters whose text contains `text`. Resolves when it has struck. */
  armStatement(text: string, fault: StatementFault): Promise<void> {
    this.#statement = { text, fault }
    return new Promise((resolve) => {
      this.#onFault = resolve
    })
  }

  /** Hands a late COMMIT to the server. */
  deliverCommit(): void {
    this.#lateCommit?.()
  }

  /** From now on, each new connection is told as soon as it is ready that the server shuts down. */
  endNewConnections(): void {
    this.#endNew = true
  }

  acceptNewConnections(): void {
    this.#endNew = false
  }

  /** Replaces a text that the client sends next by another of the same length. Resolves when it has. */
  garble(text: string, by: string): Promise<void> {
    this.#garbled = { text, by }
    return new Promise((resolve) => {
      this.#onFault = resolve
    })
  }

  /** From now on, replaces a text that the server sends by another of the same length. */
  answerInstead(text: string, by: string): void {
    this.#answered = { text, by }
  }

  /** From now on nothing passes in either direction, and nothing is closed, as with a half-open connection. */
  stall(): void {
    this.#stalled = true
  }

  /** Ends a stall. Earlier connections have lost bytes and cannot be used any more. */
  flow(): void {
    this.#stalled = false
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
    let swallowAnswers = false
    client.on('data', (chunk: Buffer) => {
      if (isCancelRequest(chunk)) this.cancelRequests++
      if (this.#stalled) return
      this.#garbleIn(chunk)
      const statementFault = this.#takeStatementFault(chunk)
      if (statementFault === 'statement_lost') return this.#strike(client, server)
      if (statementFault === 'answer_lost') {
        swallowAnswers = true
        // Only then has the statement committed, because longer answers are sent in parts before.
        server.on('data', (answer: Buffer) => {
          if (endsInReadyForQuery(answer)) this.#strike(client, server)
        })
        server.write(chunk)
        return
      }
      const fault = isCommit(chunk) ? this.#takeFault() : null
      switch (fault) {
        case null:
          server.write(chunk)
          return
        case 'answer_lost':
          swallowAnswers = true
          server.on('data', (answer: Buffer) => {
            if (endsInReadyForQuery(answer)) this.#strike(client, server)
          })
          server.write(chunk)
          return
        case 'commit_lost':
          this.#strike(client, server)
          return
        case 'commit_late':
          swallowAnswers = true
          this.#lateCommit = () => {
            this.answered = new Promise((resolve) => {
              server.on('data', (answer: Buffer) => endsInReadyForQuery(answer) && resolve())
            })
            server.write(chunk)
          }
          this.#strike(client, null)
          return
      }
    })
    server.on('data', (chunk: Buffer) => {
      this.bytesFromServer += chunk.length
      if (swallowAnswers || this.#stalled) return
      if (this.#answered !== null) {
        const at = chunk.indexOf(this.#answered.text)
        if (at !== -1) chunk.write(this.#answered.by, at)
      }
      // The message is sent in one piece with ReadyForQuery, so that the client reads both at once.
      if (this.#endNew && endsInReadyForQuery(chunk)) client.end(Buffer.concat([chunk, SHUTTING_DOWN]))
      else client.write(chunk)
    })
    server.on('close', () => client.destroy())
    // When a client goes, its server side is closed as well, unless a COMMIT is still to come there.
    client.on('close', () => {
      if (this.#lateCommit === null) server.destroy()
    })
  }

  #garbleIn(chunk: Buffer): void {
    const at = this.#garbled === null ? -1 : chunk.indexOf(this.#garbled.text)
    if (at === -1 || this.#garbled === null) return
    chunk.write(this.#garbled.by, at)
    this.#garbled = null
    this.#onFault?.()
  }

  #takeFault(): CommitFault | null {
    if (this.#fault === null || this.#skip-- > 0) return null
    const fault = this.#fault
    this.#fault = null
    return fault
  }

  #takeStatementFault(chunk: Buffer): StatementFault | null {
    if (this.#statement === null || !chunk.includes(this.#statement.text)) return null
    const { fault } = this.#statement
    this.#statement = null
    return fault
  }

  #strike(client: Socket, server: Socket | null): void {
    client.destroy()
    server?.destroy()
    this.#onFault?.()
  }
}

/** A COMMIT by itself, as a simple query (`Q`, length, text, NUL), or among statements that are sent together. */
function isCommit(chunk: Buffer): boolean {
  const alone = chunk[0] === 0x51 && chunk.subarray(5, 11).toString('latin1').toUpperCase() === 'COMMIT'
  return alone || chunk.includes('\0COMMIT\0') || chunk.includes('\0pawl_commit_')
}

/** All that the connection of a cancel request sends: length 16, code 80877102, and whom to cancel. */
function isCancelRequest(chunk: Buffer): boolean {
  return chunk.length === 16 && chunk.readUInt32BE(4) === 80_877_102
}

/** What a server sends to its clients when it stops: `E`, length, and fields with a letter and a text each. */
const SHUTTING_DOWN = ((fields: string) => {
  const head = Buffer.alloc(5, 'E')
  head.writeInt32BE(4 + fields.length, 1)
  return Buffer.concat([head, Buffer.from(fields)])
})('SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')

/** The message that ends every answer: `Z`, length 5, transaction status. */
function endsInReadyForQuery(chunk: Buffer): boolean {
  return (
    chunk.length >= 6 &&
    chunk.readUInt8(chunk.length - 6) === 0x5a &&
    chunk.readUInt32BE(chunk.length - 5) === 5
  )
}
