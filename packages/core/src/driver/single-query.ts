import type { QueryResult } from 'pg'
import {
  type Connection,
  type Executed,
  forgetPrepared,
  type OnAnswered,
  type QueryClass,
  type Sendable,
  TEXT_ONLY,
  whenAnswered,
} from './pg-protocol.js'

/** A message of one text, in the form that `pg` takes. Without values, the text may hold several statements. */
export type SingleQueryClass = new (statement: Sendable, onAnswered: OnAnswered) => object

/**
 * `pg`'s own query, except that it reports an error only once the server is ready for more, and then also what the text had
 * executed before the error: that may have ended a transaction.
 */
export function singleQueryClass(Query: QueryClass): SingleQueryClass {
  return class SingleQuery extends Query {
    readonly #executed: Executed[] = []
    #isSubmitting = false
    #notSent: { readonly error: unknown } | null = null

    constructor({ text, values, name, asText }: Sendable, onAnswered: OnAnswered) {
      super({
        text,
        ...(values !== undefined && { values: [...values] }),
        ...(name !== undefined && { name }),
        ...(asText === true && { types: TEXT_ONLY }),
      })
      this.callback = (error, result) => {
        if (error == null) onAnswered(null, [result as QueryResult])
        else onAnswered(error, [], this.#executed)
      }
    }

    override submit(connection: Connection): Error | null {
      this.#isSubmitting = true
      try {
        return super.submit(connection)
      } finally {
        this.#isSubmitting = false
      }
    }

    override handleCommandComplete(message: { readonly text: string }, connection: Connection): void {
      this.#executed.push({ command: /^\w+/.exec(message.text)?.[0] ?? '' })
      super.handleCommandComplete(message, connection)
    }

    override handleError(error: unknown, connection: Connection): void {
      // A value could not be sent. `pg` has sent the rest of the message all the same, and the server will answer that.
      if (this.#isSubmitting) this.#notSent = { error }
      else whenAnswered(error, connection, () => super.handleError(error, connection))
    }

    override handleReadyForQuery(connection: Connection): void {
      if (this.#notSent === null) {
        super.handleReadyForQuery(connection)
        return
      }
      // `pg` has closed the statement, and would go on believing that it is prepared.
      forgetPrepared(connection, this.name)
      super.handleError(this.#notSent.error, connection)
    }
  }
}
