import type { Socket } from 'node:net'
import { LoneWrites } from './lone-writes.js'
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
   * The connection is cut before the message or after it. With `client`, the server's side stays open until the server has
   * nothing more to do, as if the client's machine had vanished. With `server`, the client waits for an answer in vain.
   * With `reset`, the client sees a reset and not an orderly end.
   */
  | {
      readonly cut: 'client' | 'server' | 'both'
      readonly when: 'before' | 'after'
      readonly reset?: boolean
    }
  /** The message passes. The server's answer is lost, and the connection is cut once the server is ready again. */
  | 'lose_answer'
  /** The message and everything after it from the same side waits, and then passes. */
  | { readonly hold: Promise<unknown> }

export type Decide = (message: WireMessage) => Verdict

/** Bytes that go one way. */
interface Direction {
  readonly from: Sender
  readonly source: Socket
  readonly target: Socket
  readonly reader: MessageReader
  nth: number
  held: boolean
  /** The message at the head has waited, and `decide` is not called a second time. */
  letGo: boolean
  /** The source has nothing more to send. */
  ended: boolean
  /** Nothing passes any more. */
  cut: boolean
}

/** What a client may ask for instead of a start: an int32 after the length. */
const SSL_REQUEST = 80_877_103
const GSS_ENCRYPTION_REQUEST = 80_877_104
const CANCEL_REQUEST = 80_877_102

/**
 * When a machine that vanished is noticed, as by TCP's keepalive: sooner than in production, and later than all time-outs
 * that the tests set. Nothing else ends a server's wait for the rest of a batch, because it counts as active.
 */
const KEEPALIVE_MS = 1_500

/** The answer "no": the client goes on without encryption. */
const REFUSED = Buffer.from('N')

/** One connection of a client, and its connection to the server. */
export class ProxiedConnection {
  readonly #id: number
  readonly #client: Socket
  readonly #server: Socket
  readonly #currentDecide: () => Decide | null
  readonly #onLoneWrites: (statements: readonly string[]) => void
  readonly #toServer: Direction
  readonly #toClient: Direction
  #roundTrip = 0
  /** Round trips that the server has answered. While they are fewer than those that were sent, it is busy. */
  #answered = 0
  #status: TransactionStatus | null = null
  /** Whether messages have passed that no Sync has followed yet. */
  #inBatch = false
  readonly #writes = new LoneWrites()
  #keptAlive = false
  #losing = false
  /** Whether only the client has gone: the server's side ends when the server has nothing more to do. */
  #clientIsGone = false

  constructor(
    id: number,
    client: Socket,
    server: Socket,
    currentDecide: () => Decide | null,
    onLoneWrites: (statements: readonly string[]) => void,
  ) {
    this.#onLoneWrites = onLoneWrites
    this.#id = id
    this.#client = client
    this.#server = server
    this.#currentDecide = currentDecide
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
      // A server that has gone does not read either.
      if (way.from === 'server') this.#server.end()
      this.#pump(way)
    }
    way.source.on('end', end)
    way.source.on('close', end)
    way.source.on('error', () => {})
  }

  /** Passes on whatever may pass. */
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
    const verdict = way.letGo ? 'pass' : (this.#currentDecide()?.(message) ?? 'pass')
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

  /** Refuses encryption, so that all messages can be read. The client asks again without it. */
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
      this.#noteWrites(way, type, bytes)
      this.#inBatch = type !== 'Sync' && type !== 'Query'
      if (!this.#inBatch) this.#roundTrip++
      // Only the server's closing of the connection follows a cancel request.
      way.reader.typed = true
      way.reader.pass(bytes)
      return
    }
    if (type === READY) {
      this.#status = String.fromCharCode(bytes[5] ?? 0) as TransactionStatus
      // The first one shows that the connection is there.
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

  #noteWrites(way: Direction, type: string, bytes: Buffer): void {
    const several = this.#writes.note(this.#messageOf(way, type, bytes))
    if (several !== null) this.#onLoneWrites(several)
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

  /** The sender has gone, and what has not been passed on by now is half a message. */
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
      // What was written before still arrives, followed by the end. Answers are read, so that they cause no reset.
      this.#server.end()
      this.#server.resume()
    }
    if (side === 'server') return
    if (reset) this.#client.resetAndDestroy()
    else this.#client.destroySoon()
  }

  /** A server in the middle of something does not learn that its client has vanished. */
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
