import type { Connection } from './pg-protocol.js'

/** Looks like a connection, and keeps what it is to send. */
export interface Collector extends Connection {
  start(): void
  /** Has something written the first time, and from then on sends the same. */
  repeat(written: { bytes: Buffer | null }, write: () => void): void
  /** All of it since then, with the one Sync. */
  take(): Buffer
}

const collectors = new WeakMap<Connection, Collector>()

/**
 * One write is cheaper than one for each message. Statements that are queries of `pg` ask for a Sync each; there is one, at
 * the end.
 */
export function collectorOf(connection: Connection): Collector {
  let collector = collectors.get(connection)
  if (collector === undefined) collectors.set(connection, (collector = newCollector(connection)))
  return collector
}

function newCollector(connection: Connection): Collector {
  const { parsedStatements, submittedNamedStatements, stream } = connection
  const prototype = Object.getPrototypeOf(connection) as Connection
  let messages: Buffer[] = []
  return Object.assign(Object.create(prototype) as Connection, {
    parsedStatements,
    submittedNamedStatements,
    stream,
    _send: (message: Buffer) => void messages.push(message),
    sync: () => {},
    start: () => {
      messages = []
    },
    repeat: (written: { bytes: Buffer | null }, write: () => void) => {
      if (written.bytes === null) {
        const before = messages.length
        write()
        written.bytes = Buffer.concat(messages.slice(before))
      } else {
        messages.push(written.bytes)
      }
    },
    take(this: Connection) {
      prototype.sync.call(this)
      return Buffer.concat(messages)
    },
  })
}
