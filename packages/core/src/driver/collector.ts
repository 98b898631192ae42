import type { Connection } from './pg-protocol.js'

/** Looks like a connection, and collects what is to be sent. */
export interface Collector extends Connection {
  start(): void
  /** Calls `write` the first time, and sends the same bytes from then on. */
  repeat(written: { bytes: Buffer | null }, write: () => void): void
  /** Returns everything since `start`, with the one Sync. */
  take(): Buffer
}

const collectors = new WeakMap<Connection, Collector>()

/**
 * One write is cheaper than one for each message. Statements that are queries of `pg` each ask for a Sync; only one is
 * sent, at the end.
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
