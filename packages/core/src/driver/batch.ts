import type { QueryResult } from 'pg'
import { plainMember } from './plain-member.js'
import { sqlStateOf } from './postgres-error.js'

/** A statement as `pg` takes it. */
export interface Sendable {
  readonly text: string
  readonly values?: readonly unknown[] | undefined
  /** What the server keeps it prepared as. */
  readonly name?: string | undefined
  /** Values come back as text. */
  readonly asText?: boolean
  /** For one whose values are always the same: what is sent once it is prepared. */
  readonly repeated?: { bytes: Buffer | null } | undefined
}

/** One statement of a batch: sends itself, and takes its part of the answer. */
export interface Member {
  readonly name?: string | undefined
  readonly text?: string | undefined
  /** A value that could not be sent, or a row that could not be read. */
  readonly failed: { readonly error: unknown } | null
  prepare(connection: Collector): void
  handleRowDescription(message: unknown): void
  handleDataRow(message: unknown): void
  handleCommandComplete(message: unknown, connection: Connection): void
  /** Asked for once it is complete. */
  result(connection: Connection): QueryResult
}

/** The parts of `pg`'s own query that a batch is made of; its types leave them out. */
interface ProtocolQuery {
  name: string | undefined
  text: string | undefined
  binary?: boolean | undefined
  callback?: (error: unknown, result?: unknown) => void
  submit(connection: Connection): Error | null
  prepare(connection: Connection): void
  handleRowDescription(message: unknown): void
  handleDataRow(message: unknown): void
  handleCommandComplete(message: unknown, connection: Connection): void
  handleEmptyQuery(connection: Connection): void
  handleReadyForQuery(connection: Connection): void
  handleError(error: unknown, connection: Connection): void
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
  once(event: 'readyForQuery', listener: () => void): unknown
}

export type QueryClass = new (config: object) => ProtocolQuery

/** A client that a batch can be sent on. */
export interface BatchingClient {
  readonly binary?: boolean
  query(batch: unknown): unknown
  getTypeParser(oid: number, format?: never): unknown
}

/**
 * Called once the server has answered and is ready for more: from then on, the client knows its transaction status. An error
 * of the connection is reported at once. `results` are those of the statements that were executed; without an error, of all.
 * `executed`: what a text of several statements had executed before its error.
 */
export type OnAnswered = (
  error: unknown,
  results: readonly QueryResult[],
  executed?: readonly Executed[],
) => void

/** The command of a statement that was executed. */
export type Executed = Pick<QueryResult, 'command'>

/**
 * Waits for the end of an answer that holds an error: `pg` reports an error as soon as it arrives, when it is still unknown
 * whether the transaction failed, is over, or the whole session is. Errors that are not the server's have no such end.
 */
export function whenAnswered(error: unknown, connection: Connection, report: () => void): void {
  if (sqlStateOf(error) === null) report()
  else connection.once('readyForQuery', report)
}

/** The server has it prepared no longer. */
export function forgetPrepared(connection: Connection, name: string | undefined): void {
  if (name === undefined) return
  delete connection.submittedNamedStatements[name]
  delete connection.parsedStatements[name]
}

/** A message of several statements, as `pg` takes it. */
export type BatchClass = new (
  client: BatchingClient,
  statements: readonly Sendable[],
  onAnswered: OnAnswered,
) => object

/** Framework statements read text only, whatever type parsers the application has set globally. */
export const TEXT_ONLY = { getTypeParser: () => (value: unknown) => value } as never

/** A statement that takes a query of `pg`. */
class PgMember implements Member {
  readonly #query: ProtocolQuery
  #result: unknown
  failed: { readonly error: unknown } | null = null

  constructor(Query: QueryClass, client: BatchingClient, { text, values, name, asText }: Sendable) {
    const types = asText === true ? TEXT_ONLY : { getTypeParser: client.getTypeParser.bind(client) }
    const query = new Query({ text, values, types, ...(name !== undefined && { name }) })
    if (client.binary === true) query.binary = true
    query.callback = (_, result) => {
      this.#result = result
    }
    query.handleError = (error) => {
      this.failed = { error }
    }
    this.#query = query
  }

  get name(): string | undefined {
    return this.#query.name
  }

  get text(): string | undefined {
    return this.#query.text
  }

  prepare(connection: Connection): void {
    this.#query.prepare(connection)
  }

  handleRowDescription(message: unknown): void {
    this.#query.handleRowDescription(message)
  }

  handleDataRow(message: unknown): void {
    this.#query.handleDataRow(message)
  }

  handleCommandComplete(message: unknown, connection: Connection): void {
    this.#query.handleCommandComplete(message, connection)
  }

  result(connection: Connection): QueryResult {
    this.#query.handleReadyForQuery(connection)
    return this.#result as QueryResult
  }
}

/**
 * Several statements in one message, answered member by member. They share one Sync: after a failure the server skips all
 * that follow. Queries that merely do not wait for each other, as with `pg`'s `pipeline` option, have one each: there, a
 * statement whose BEGIN failed would be executed outside of any transaction.
 *
 * It is a query of `pg` by its prototype, as a client in `pipeline` mode asks for, and has no need for what the constructor
 * would do.
 *
 * No array here begins empty, and no member knows the batch: where many requests run while a process is young, V8 comes to
 * hold such arrays for long-lived, and what they lead to is then not freed until the next full collection.
 */
export function batchClass(Query: QueryClass): BatchClass {
  class Batch {
    /** The client puts its own in front of it, where it has a time-out. */
    callback: (error: unknown) => void
    readonly #members: readonly Member[]
    #answered = 0
    #results: readonly QueryResult[] = NONE

    constructor(client: BatchingClient, statements: readonly Sendable[], onAnswered: OnAnswered) {
      this.#members = statements.map(
        (statement) => plainMember(client, statement) ?? new PgMember(Query, client, statement),
      )
      this.callback = (error) => onAnswered(error ?? null, this.#results)
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
        if (member.failed !== null) break
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
      whenAnswered(error, connection, () => this.#end(error, connection))
    }

    handleReadyForQuery(connection: Connection): void {
      this.#end(null, connection)
    }

    get #member(): Member | undefined {
      return this.#members[this.#answered]
    }

    #memberAnswered(connection: Connection): void {
      const { name, text } = this.#member ?? {}
      // A tracer may have put its own text in front of ours.
      if (name !== undefined) connection.parsedStatements[name] = text
      this.#answered++
    }

    #end(error: unknown, connection: Connection): void {
      // What `pg` could not send it has had closed, and would go on to believe that it is there.
      for (const { failed, name } of this.#members) if (failed !== null) forgetPrepared(connection, name)
      const answered = this.#members.slice(0, this.#answered)
      this.#results = answered.map((member) => member.result(connection))
      this.callback(error ?? this.#members.find(({ failed }) => failed !== null)?.failed?.error)
    }
  }
  Object.setPrototypeOf(Batch.prototype, Query.prototype as object)
  return Batch
}

const NONE: readonly never[] = []

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
