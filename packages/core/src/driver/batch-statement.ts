import type { QueryResult } from 'pg'
import type { Collector } from './collector.js'
import type { Connection } from './pg-protocol.js'

/** One statement of a batch: it sends itself, and takes its part of the answer. */
export interface BatchStatement {
  readonly name?: string | undefined
  readonly text?: string | undefined
  /** A value that could not be sent, or a row that could not be read. */
  readonly failed: { readonly error: unknown } | null
  prepare(connection: Collector): void
  handleRowDescription(message: unknown): void
  handleDataRow(message: unknown): void
  handleCommandComplete(message: unknown, connection: Connection): void
  /** Called once the statement is complete. */
  result(connection: Connection): QueryResult
}
