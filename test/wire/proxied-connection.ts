import type { Socket } from 'node:net'
import { MessageReader } from './message-reader.js'
import {
  CANCEL,
  messageName,
  READY,
  type Sender,
  STARTUP,
  type TransactionStatus,
  type WireMessage,
} from './wire-message.js'

/** What becomes of a message. */
export type Verdict =
  | 'pass'
  /**
   * The connection is cut, before the message or after it. `client`: the server's side stays open until the server has
   * nothing more to do, as if the client's machine had vanished. `server`: the client waits for an answer in vain.
   * `reset`: the client is told so by a reset, and not by an orderly end.
   */
  | {
      readonly cut: 'client' | 'server' | 'both'
      readonly when: 'before' | 'after'
      readonly reset?: boolean
    }
  /** It passes; what the server answers is lost, and the connection is cut once the server is ready again. */
  | 'lose_answer'
  /** It waits, and all that comes after it from the same side. Then it passes. */
  | { readonly hold: Promise<unknown> }

export type Director = (message: WireMessage) => Verdict

/** Bytes that go one way. */
interface Direction {
  readonly from: Sender
  readonly source: Socket
  readonly target: Socket
  readonly reader: MessageReader
  nth: number
  held: boolean
  /** The message at the head has waited: the director is not asked a second time. */
  letGo: boolean
  /** The source has nothing more to send. */
  ended: boolean
  /** Nothing passes any more. */
  cut: boolean
}

/** What a client may ask for in place of a start: an int32 after the length. */
const SSL_REQUEST = 80_877_103
const GSS_ENCRYPTION_REQUEST = 80_877_104
const CANCEL_REQUEST = 80_877_102

/**
 * When a machine that vanished is noticed, as by TCP's keepalive: sooner than anywhere in earnest, and later than all
 * time-outs that the tests set. Nothing else ends a server's wait for the rest of a batch: it counts as active.
 */
const KEEPALIVE_MS = 1_500

/** "No": the client goes on without encryption. */
const REFUSED = Buffer.from('N')

/** One connection of a client, and the one to the server that belongs to it. */
export class ProxiedConnection {
  readonly #id: number
  readonly #client: Socket
  readonly #server: Socket
  readonly #directorOf: () => Director | null
  readonly #toServer: Direction
  readonly #toClient: Direction
  #roundTrip = 0
  /** Round trips that the server has answered: it is busy while they are fewer. */
  #answered = 0
  #status: TransactionStatus | null = null
  /** Messages have passed that no Sync has followed yet. */
  #inBatch = false
  #keptAlive = false
  #losing = false
  /** Only the client has gone: the server's side ends when the server has nothing more to do. */
  #clientIsGone = false

  constructor(id: number, client: Socket, server: Socket, directorOf: () => Director | null) {
    this.#id = id
    this.#client = client
    this.#server = server
    this.#directorOf = directorOf
    this.#toServer = direction('client', client, server, false)
    this.#toClient = direction('server', server, client, true)
    this.#listen(this.#toServer)
    this.#listen(this.#toClient)
  }

  onceClosed(listener: () => void): void {
    let open = 2
    const closed = (): void => {
      if (--open === 0) listener()
    }
    this.#client.once('close', closed)
    this.#server.once('close', closed)
  }

  destroy(): void {
    this.#client.destroy()
    this.#server.destroy()
  }

  #listen(way: Direction): void {
    way.source.on('data', (chunk: Buffer) => {
      if (way.cut) return
      way.reader.push(chunk)
      this.#pump(way)
    })
    const end = (): void => {
      way.ended = true
      // A server that has gone reads nothing either.
      if (way.from === 'server') this.#server.end()
      this.#pump(way)
    }
    way.source.on('end', end)
    way.source.on('close', end)
    way.source.on('error', () => {})
  }

  /** Lets pass what may. */
  #pump(way: Direction): void {
    while (!way.held && !way.cut) {
      const bytes = way.reader.peek()
      if (bytes === null) break
      this.#decide(way, bytes)
    }
    if (!way.held && !way.cut) {
      this.#flush(way)
      if (way.ended) this.#finish(way)
    }
  }

  #decide(way: Direction, bytes: Buffer): void {
    if (!way.reader.typed && this.#refuseEncryption(way, bytes)) return
    const type = typeOf(way, bytes)
    const message = this.#messageOf(way, type, bytes)
    const verdict = way.letGo ? 'pass' : (this.#directorOf()?.(message) ?? 'pass')
    way.letGo = false
    if (verdict === 'pass') return this.#pass(way, type, bytes)
    if (verdict === 'lose_answer') {
      this.#losing = true
      return this.#pass(way, type, bytes)
    }
    if ('hold' in verdict) return this.#hold(way, verdict.hold)
    if (verdict.when === 'after') this.#pass(way, type, bytes)
    this.#flush(way)
    this.#cut(verdict.cut, verdict.reset ?? false)
  }

  /** So that all messages can be read. The client asks again, in the clear. */
  #refuseEncryption(way: Direction, bytes: Buffer): boolean {
    const code = bytes.readInt32BE(4)
    if (code !== SSL_REQUEST && code !== GSS_ENCRYPTION_REQUEST) return false
    way.reader.drop(bytes)
    this.#client.write(REFUSED)
    return true
  }

  #messageOf(way: Direction, type: string, bytes: Buffer): WireMessage {
    return {
      connection: this.#id,
      from: way.from,
      nth: way.nth,
      type,
      roundTrip: this.#roundTrip,
      status: this.#status,
      bytes,
    }
  }

  #pass(way: Direction, type: string, bytes: Buffer): void {
    way.nth++
    if (way.from === 'client') {
      this.#inBatch = type !== 'Sync' && type !== 'Query'
      if (!this.#inBatch) this.#roundTrip++
      // Whatever follows a cancel request is the server's closing of the connection.
      way.reader.typed = true
      way.reader.pass(bytes)
      return
    }
    if (type === READY) {
      this.#status = String.fromCharCode(bytes[5] ?? 0) as TransactionStatus
      // The first one tells that the connection is there.
      if (this.#answered < this.#roundTrip) this.#answered++
    }
    if (this.#losing || this.#clientIsGone) {
      this.#flush(way)
      way.reader.drop(bytes)
      if (type === READY && this.#losing) this.#cut('both', false)
      else if (type === READY) this.#leaveServer()
    } else {
      way.reader.pass(bytes)
    }
  }

  #hold(way: Direction, until: Promise<unknown>): void {
    this.#flush(way)
    way.held = true
    const letGo = (): void => {
      way.held = false
      way.letGo = true
      this.#pump(way)
    }
    until.then(letGo, letGo)
  }

  #flush({ reader, target }: Direction): void {
    const bytes = reader.take()
    if (bytes.length > 0 && target.writable) target.write(bytes)
  }

  /** Whoever sent it has gone; what has not been passed on by now is half a message. */
  #finish(way: Direction): void {
    way.cut = true
    if (way.from === 'client' && this.#clientIsGone) return
    way.target.end()
  }

  #cut(side: 'client' | 'server' | 'both', reset: boolean): void {
    this.#toServer.cut = true
    if (side === 'client') {
      this.#clientIsGone = true
      this.#leaveServer()
    } else {
      this.#toClient.cut = true
      // What was written before still arrives, and then the end. Answers are read, so that they cause no reset.
      this.#server.end()
      this.#server.resume()
    }
    if (side === 'server') return
    if (reset) this.#client.resetAndDestroy()
    else this.#client.destroySoon()
  }

  /** A server in the middle of something learns nothing of a client that vanished. */
  #leaveServer(): void {
    const isIdle = this.#answered >= this.#roundTrip && !this.#inBatch && this.#status === 'I'
    if (isIdle) {
      this.#server.end()
    } else if (!this.#keptAlive) {
      this.#keptAlive = true
      setTimeout(() => this.#server.end(), KEEPALIVE_MS).unref()
    }
  }
}

function direction(from: Sender, source: Socket, target: Socket, typed: boolean): Direction {
  return {
    from,
    source,
    target,
    reader: new MessageReader(typed),
    nth: 0,
    held: false,
    letGo: false,
    ended: false,
    cut: false,
  }
}

function typeOf({ from, reader }: Direction, bytes: Buffer): string {
  if (reader.typed) return messageName(from, bytes[0] ?? 0)
  return bytes.readInt32BE(4) === CANCEL_REQUEST ? CANCEL : STARTUP
}
