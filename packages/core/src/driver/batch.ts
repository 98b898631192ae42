import type { QueryResult } from 'pg'
import type { BatchStatement } from './batch-statement.js'
import { collectorOf } from './collector.js'
import { leanStatement } from './lean-statement.js'
import {
  type BatchingClient,
  type Connection,
  forgetPrepared,
  type OnAnswered,
  type QueryClass,
  type Sendable,
  whenAnswered,
} from './pg-protocol.js'
import { PgStatement } from './pg-statement.js'

/** A message of several statements, in the form that `pg` takes. */
export type BatchClass = new (
  client: BatchingClient,
  statements: readonly Sendable[],
  onAnswered: OnAnswered,
) => object

/**
 * Several statements in one message, answered one by one. They share one Sync: after a failure the server skips everything
 * that follows. Queries that merely do not wait for each other, as with `pg`'s `pipeline` option, have one Sync each:
 * there, a statement whose BEGIN failed would be executed outside any transaction.
 *
 * By its prototype it is a query of `pg`, which a client in `pipeline` mode requires; it does not need what the constructor
 * would do.
 *
 * No array here starts out empty, and no statement knows the batch: when many requests run in a young process, V8 starts to
 * treat such arrays as long-lived, and whatever they reference is then not freed until the next full collection.
 */
export function batchClass(Query: QueryClass): BatchClass {
  class Batch {
    /** A client with a time-out wraps this in a callback of its own. */
    callback: (error: unknown) => void
    readonly #statements: readonly BatchStatement[]
    #answered = 0
    #results: readonly QueryResult[] = NONE

    constructor(client: BatchingClient, statements: readonly Sendable[], onAnswered: OnAnswered) {
      this.#statements = statements.map(
        (statement) => leanStatement(client, statement) ?? new PgStatement(Query, client, statement),
      )
      this.callback = (error) => onAnswered(error ?? null, this.#results)
    }

    /** The client remembers by a query's name and text what has been prepared. */
    get name(): string | undefined {
      return this.#current?.name
    }

    get text(): string | undefined {
      return this.#current?.text
    }

    /** Tracers rewrite the text of a query, to add a comment. Here there are several texts. */
    set text(_: string | undefined) {}

    submit(connection: Connection): null {
      const collector = collectorOf(connection)
      collector.start()
      for (const each of this.#statements) {
        each.prepare(collector)
        // What follows must not be executed without it.
        if (each.failed !== null) break
      }
      const bytes = collector.take()
      if (connection.stream.writable) connection.stream.write(bytes)
      return null
    }

    handleRowDescription(message: unknown): void {
      this.#current?.handleRowDescription(message)
    }

    handleDataRow(message: unknown): void {
      this.#current?.handleDataRow(message)
    }

    handleCommandComplete(message: unknown, connection: Connection): void {
      this.#current?.handleCommandComplete(message, connection)
      this.#statementAnswered(connection)
    }

    handleEmptyQuery(connection: Connection): void {
      this.#statementAnswered(connection)
    }

    handleError(error: unknown, connection: Connection): void {
      // The server skipped the rest, so none of them is prepared there.
      for (const { name } of this.#statements.slice(this.#answered))
        if (name !== undefined) delete connection.submittedNamedStatements[name]
      whenAnswered(error, connection, () => this.#end(error, connection))
    }

    handleReadyForQuery(connection: Connection): void {
      this.#end(null, connection)
    }

    get #current(): BatchStatement | undefined {
      return this.#statements[this.#answered]
    }

    #statementAnswered(connection: Connection): void {
      const { name, text } = this.#current ?? {}
      // A tracer may have shadowed our text with its own.
      if (name !== undefined) connection.parsedStatements[name] = text
      this.#answered++
    }

    #end(error: unknown, connection: Connection): void {
      // `pg` has closed the statements that it could not send, and would go on believing that they are prepared.
      for (const { failed, name } of this.#statements) if (failed !== null) forgetPrepared(connection, name)
      const answered = this.#statements.slice(0, this.#answered)
      this.#results = answered.map((each) => each.result(connection))
      this.callback(error ?? this.#statements.find(({ failed }) => failed !== null)?.failed?.error)
    }
  }
  Object.setPrototypeOf(Batch.prototype, Query.prototype as object)
  return Batch
}

const NONE: readonly never[] = []
