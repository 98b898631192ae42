import type { QueryResult } from 'pg'
import type { BatchStatement } from './batch-statement.js'
import {
  type BatchingClient,
  type Connection,
  type ProtocolQuery,
  type QueryClass,
  type Sendable,
  TEXT_ONLY,
} from './pg-protocol.js'

/** A statement of a batch that is a query of `pg`, which converts values and rows of any type. */
export class PgStatement implements BatchStatement {
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
