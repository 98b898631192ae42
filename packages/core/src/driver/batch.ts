import type { QueryResult } from 'pg'
import { plainMember } from './plain-member.js'

/** A statement as `pg` takes it. */
export interface Sendable {
  readonly text: string
  readonly values?: readonly unknown[]
  /** What the server keeps it prepared as. */
  readonly name?: string
  /** Values come back as text. */
  readonly asText?: boolean
  /** For one whose values are always the same: what is sent once it is prepared. */
  readonly repeated?: { bytes: Buffer | null }
}

/** One statement of a batch: sends itself, and takes its part of the answer. */
export interface Member {
  readonly name?: string | undefined
  readonly text?: string | undefined
  prepare(connection: Connection): void
  handleRowDescription(message: unknown): void
  handleDataRow(message: unknown): void
  handleCommandComplete(message: unknown, connection: Connection): void
  handleReadyForQuery(connection: Connection): void
  handleError(error: unknown, connection: Connection): void
  callback?: (error: unknown, result?: unknown) => void
}

/** The parts of `pg`'s own query that a batch is made of; its types leave them out. */
interface ProtocolQuery extends Member {
  name: string | undefined
  text: string | undefined
  binary?: boolean | undefined
  handleEmptyQuery(connection: Connection): void
}

/** The parts of `pg`'s connection that are needed to send a statement. */
export interface Connection {
  readonly stream: { readonly writable: boolean; write(bytes: Buffer): void }
  /** What the server has prepared, and what it was asked to: names and texts. */
  readonly parsedStatements: Record<string, string | undefined>
  readonly submittedNamedStatements: Record<string, string | undefined>
  parse(statement: { text: string; name?: string | undefined }): void
  bind(values: {
    values: readonly unknown[]
    valueMapper: (value: unknown) => string | Buffer | null
    statement?: string | undefined
  }): void
  describe(what: { type: 'P'; name: string }): void
  execute(what: { portal: string }): void
  sync(): void
  _send(bytes: Buffer): void
}

type QueryClass = new (config: object) => ProtocolQuery

/** A client that a batch can be sent on. */
export interface BatchingClient {
  readonly binary?: boolean
  query(batch: unknown): unknown
  getTypeParser(oid: number, format?: never): unknown
}

/** `results`: of the statements that were executed; without an error, of all. */
export type OnAnswered = (error: unknown, results: readonly QueryResult[]) => void

/** Sends statements together; those after a failed one are not executed. */
export type SendBatch = (
  client: BatchingClient,
  statements: readonly Sendable[],
  onAnswered: OnAnswered,
) => void

const known = new WeakMap<object, SendBatch | null>()

/**
 * How to send several statements in one round trip on clients of this class; null where it is not `pg`'s own.
 *
 * They share one Sync: after a failure the server skips all that follow. Queries that merely do not wait for each
 * other, as with `pg`'s `pipeline` option, have one each: there, a statement whose BEGIN failed would be executed
 * outside of any transaction.
 */
export function batchesOn(clientClass: object): SendBatch | null {
  let send = known.get(clientClass)
  if (send === undefined) {
    send = isSuitable(clientClass) ? sendWith(batchClass(clientClass.Query)) : null
    known.set(clientClass, send)
  }
  return send
}

const NEEDED = [
  'prepare',
  'handleRowDescription',
  'handleDataRow',
  'handleCommandComplete',
  'handleEmptyQuery',
  'handleReadyForQuery',
  'handleError',
]

/** `pg-native` and look-alikes have none of this. */
function isSuitable(clientClass: object): clientClass is { readonly Query: QueryClass } {
  const { Query } = clientClass as { readonly Query?: { readonly prototype?: Record<string, unknown> } }
  const { prototype } = Query ?? {}
  return prototype !== undefined && NEEDED.every((method) => typeof prototype[method] === 'function')
}

interface BatchClass {
  readonly Query: QueryClass
  new (client: BatchingClient, statements: readonly Sendable[], onAnswered: OnAnswered): object
}

function sendWith(Batch: BatchClass): SendBatch {
  return (client, statements, onAnswered) => {
    client.query(new Batch(client, statements, onAnswered))
  }
}

/** Framework statements read text only, whatever type parsers the application has set globally. */
export const TEXT_ONLY = { getTypeParser: () => (value: unknown) => value } as never

function pgMember(Query: QueryClass, client: BatchingClient, statement: Sendable): Member {
  const { text, values, name, asText } = statement
  const types = asText === true ? TEXT_ONLY : { getTypeParser: client.getTypeParser.bind(client) }
  const member = new Query({ text, values, types, ...(name !== undefined && { name }) })
  if (client.binary === true) member.binary = true
  return member
}

/**
 * A query of `pg` that is answered member by member. It is one by its prototype, as a client in `pipeline` mode asks for,
 * and has no need for what the constructor would do.
 */
function batchClass(Query: QueryClass): BatchClass {
  class Batch {
    static readonly Query = Query
    /** The client puts its own in front of it, where it has a time-out. */
    callback: (error: unknown) => void
    readonly #members: Member[] = []
    readonly #results: QueryResult[] = []
    #answered = 0
    #failed: { readonly error: unknown } | null = null

    constructor(client: BatchingClient, statements: readonly Sendable[], onAnswered: OnAnswered) {
      const results = this.#results
      this.callback = (error) => onAnswered(error ?? null, results)
      const onMember = (_: unknown, result: unknown): void => void results.push(result as QueryResult)
      // A value that cannot be sent, or a row that cannot be read.
      const onFailure = (error: unknown): void => {
        this.#failed ??= { error }
      }
      for (const statement of statements) {
        const member = plainMember(client, statement) ?? pgMember(Query, client, statement)
        member.callback = onMember
        member.handleError = onFailure
        this.#members.push(member)
      }
    }

    /** By name and text of its query, the client remembers what has been prepared. */
    get name(): string | undefined {
      return this.#member?.name
    }

    get text(): string | undefined {
      return this.#member?.text
    }

    /** Tracers write the text of a query anew, with a comment. Here it is several. */
    set text(_: string | undefined) {}

    submit(connection: Connection): null {
      const collector = collectorOf(connection)
      collector.start()
      for (const member of this.#members) {
        member.prepare(collector)
        // What follows must not be executed without it.
        if (this.#failed !== null) break
      }
      const bytes = collector.take()
      if (connection.stream.writable) connection.stream.write(bytes)
      return null
    }

    handleRowDescription(message: unknown): void {
      this.#member?.handleRowDescription(message)
    }

    handleDataRow(message: unknown): void {
      this.#member?.handleDataRow(message)
    }

    handleCommandComplete(message: unknown, connection: Connection): void {
      this.#member?.handleCommandComplete(message, connection)
      this.#memberAnswered(connection)
    }

    handleEmptyQuery(connection: Connection): void {
      this.#memberAnswered(connection)
    }

    handleError(error: unknown, connection: Connection): void {
      // The server skipped the rest, so that none of them is prepared there.
      for (const { name } of this.#members.slice(this.#answered))
        if (name !== undefined) delete connection.submittedNamedStatements[name]
      this.callback(error)
    }

    handleReadyForQuery(): void {
      this.callback(this.#failed?.error)
    }

    get #member(): Member | undefined {
      return this.#members[this.#answered]
    }

    #memberAnswered(connection: Connection): void {
      const { name, text } = this.#member ?? {}
      // A tracer may have put its own text in front of ours.
      if (name !== undefined) connection.parsedStatements[name] = text
      this.#member?.handleReadyForQuery(connection)
      this.#answered++
    }
  }
  Object.setPrototypeOf(Batch.prototype, Query.prototype as object)
  return Batch
}

/** Looks like a connection, and keeps what it is to send. */
interface Collector extends Connection {
  start(): void
  /** All of it since then, with the one Sync. */
  take(): Buffer
}

const collectors = new WeakMap<Connection, Collector>()

/**
 * One write is cheaper than one for each message. Members that are queries of `pg` ask for a Sync each; there is one, at
 * the end.
 */
function collectorOf(connection: Connection): Collector {
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
    take(this: Connection) {
      prototype.sync.call(this)
      return Buffer.concat(messages)
    },
  })
}
