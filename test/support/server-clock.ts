import pg from 'pg'

type Write = (bytes: Buffer, ...more: unknown[]) => boolean

const CLOCK = /(?:pg_catalog\.)?\b(?:clock|statement|transaction)_timestamp\(\)/g
const STARTED = /(?:pg_catalog\.)?\bpg_postmaster_start_time\(\)/g

/**
 * The clock of the server behind a pool, which a test may set: statements ask the real server for the time, and an offset
 * is added. `failOver` stands for another server, and `jump` for the same one with its clock set.
 */
export class ServerClock {
  #offsetMs = 0
  #server = 0

  /** Sets the clock of this same server. */
  jump(byMs: number): void {
    this.#offsetMs += byMs
  }

  /** From here on another server answers, whose clock is off by this much. */
  failOver(byMs: number): void {
    this.jump(byMs)
    this.#server++
  }

  /** For the `Client` option of a pool. */
  get Client(): typeof pg.Client {
    const rewrite = (text: string): string => this.#rewrite(text)
    return class ClientOfServer extends pg.Client {
      constructor(config?: string | pg.ClientConfig) {
        super(config)
        const { stream } = (this as unknown as { connection: { stream: { write: Write } } }).connection
        const write = stream.write.bind(stream)
        const rewritten: Write = (bytes, ...more) => write(rewriteStatements(bytes, rewrite), ...more)
        // A socket sets its own `write` again when it connects.
        Object.defineProperty(stream, 'write', { get: () => rewritten, set: () => {} })
      }
    }
  }

  #rewrite(text: string): string {
    return text
      .replaceAll(CLOCK, `(pg_catalog.clock_timestamp() + interval '${this.#offsetMs} ms')`)
      .replaceAll(STARTED, `(pg_catalog.pg_postmaster_start_time() + interval '${this.#server} s')`)
  }
}

const PARSE = 0x50
const QUERY = 0x51

/** Replaces the text in messages that carry a statement. A startup packet begins with its length, and carries none. */
function rewriteStatements(bytes: Buffer, rewrite: (text: string) => string): Buffer {
  const messages: Buffer[] = []
  for (let at = 0; at < bytes.length;) {
    const type = bytes[at]
    const length = type === 0 ? bytes.length : 1 + bytes.readInt32BE(at + 1)
    const message = bytes.subarray(at, at + length)
    messages.push(type === PARSE || type === QUERY ? withText(message, rewrite) : message)
    at += length
  }
  return Buffer.concat(messages)
}

/** A Parse message has the name of the statement before its text, and the types of its parameters after it. */
function withText(message: Buffer, rewrite: (text: string) => string): Buffer {
  const from = message[0] === PARSE ? message.indexOf(0, 5) + 1 : 5
  const to = message.indexOf(0, from)
  const text = Buffer.from(rewrite(message.toString('utf8', from, to)))
  const changed = Buffer.concat([message.subarray(0, from), text, message.subarray(to)])
  changed.writeInt32BE(changed.length - 1, 1)
  return changed
}
