import type { QueryResult } from 'pg'
import { sqlStateOf } from './postgres-error.js'

/** A statement in the form that `pg` takes. */
export interface Sendable {
  readonly text: string
  readonly values?: readonly unknown[] | undefined
  /** The name under which the server keeps it prepared. */
  readonly name?: string | undefined
  /** Values come back as text. */
  readonly asText?: boolean
  /** For a statement whose values are always the same: what is sent once it is prepared. */
  readonly repeated?: { bytes: Buffer | null } | undefined
}

/** The parts of `pg`'s own query that a batch is made of; its types leave them out. */
export interface ProtocolQuery {
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
  /** What the server has prepared, and what it was asked to prepare: names and texts. */
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
 * Called once the server has answered and is ready for more: from then on, the client knows its transaction status. A
 * connection error is reported at once. `results` are those of the statements that were executed; without an error, of all.
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
 * Waits for the end of an answer that contains an error: `pg` reports an error as soon as it arrives, when it is not yet
 * known whether the transaction has failed, or is over, or the whole session is. Errors that are not the server's have no
 * such end.
 */
export function whenAnswered(error: unknown, connection: Connection, report: () => void): void {
  if (sqlStateOf(error) === null) report()
  else connection.once('readyForQuery', report)
}

/** Forgets a statement that the server no longer has prepared. */
export function forgetPrepared(connection: Connection, name: string | undefined): void {
  if (name === undefined) return
  delete connection.submittedNamedStatements[name]
  delete connection.parsedStatements[name]
}

/** Framework statements read text only, whatever type parsers the application has set globally. */
export const TEXT_ONLY = { getTypeParser: () => (value: unknown) => value } as never
