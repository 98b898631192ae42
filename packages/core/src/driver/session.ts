import type { PoolClient, QueryResult } from 'pg'
import { PawlError } from '../errors.js'
import { endsSession, isSocketError, sqlStateOf } from './postgres-error.js'
import type { Probe } from './probe.js'

/** One of the framework's own statements. */
export interface Statement {
  readonly name: string
  readonly text: string
}

/** A client of `pg`, with the parts of it that its types leave out. */
type Client = PoolClient & {
  readonly connection?: { readonly stream?: { destroy(): void } }
  /** `I` idle, `T` in a transaction, `E` in a failed one; null where the client does not know. */
  getTransactionStatus(): 'I' | 'T' | 'E' | null
}

/** Framework statements read text only, whatever type parsers the application has set globally. */
const TEXT_ONLY = { getTypeParser: () => (value: unknown) => value } as never

/** read_only_sql_transaction */
const READ_ONLY = '25006'

/**
 * A client checked out of the pool. It listens for errors while it is out (an unheard one ends the process), gives up
 * on a server that does not answer, and goes back to the pool only if no transaction is open on it.
 */
export class Session {
  readonly #client: Client
  readonly #probe: Probe | null
  readonly #onError: (error: Error) => void
  readonly #onEnd: () => void
  readonly #phase: string
  /** Resolves when the connection is lost; never, if it is not. */
  readonly whenLost: Promise<void>
  #onLost: (() => void) | null = null
  #deadlineMs: number
  #lost: Error | null = null
  #firstError: unknown = null
  #stale = false
  #released = false

  constructor(client: PoolClient, phase: string, deadlineMs: number, probe: Probe | null) {
    this.#client = client
    this.#phase = phase
    this.#deadlineMs = deadlineMs
    this.#probe = probe
    this.#onError = (error) => this.#lose(error)
    this.#onEnd = () => this.#lose(new Error('Connection ended'))
    this.whenLost = new Promise((resolve) => {
      this.#onLost = resolve
    })
    this.#client.on('error', this.#onError)
    this.#client.on('end', this.#onEnd)
  }

  /** The first error a query met since all was well, which the user may have swallowed. */
  get firstError(): unknown {
    return this.#firstError
  }

  /**
   * Whether the open transaction can no longer commit. The status alone says so too late: a query fails as its error
   * arrives, and the status comes after it.
   */
  get doomed(): boolean {
    return this.transactionStatus === 'E' || sqlStateOf(this.#firstError) !== null
  }

  get transactionStatus(): 'I' | 'T' | 'E' | null {
    return this.#client.getTransactionStatus()
  }

  /** How long one statement may take before the connection is given up: more than its server-side time-out. */
  setDeadline(deadlineMs: number): void {
    this.#deadlineMs = deadlineMs
  }

  /** Runs a framework statement. Values come back as text, rows by column name. */
  async run(
    statement: Statement,
    values?: readonly unknown[],
  ): Promise<QueryResult<Record<string, string | null>>> {
    const { name, text } = statement
    if (this.#probe !== null) await this.#probe({ phase: this.#phase, step: name, when: 'before' })
    const config =
      values === undefined ? { text, types: TEXT_ONLY } : { text, values: [...values], types: TEXT_ONLY }
    const result = await this.#send(config)
    if (this.#probe !== null) await this.#probe({ phase: this.#phase, step: name, when: 'after' })
    return result as QueryResult<Record<string, string | null>>
  }

  /** Runs one of the user's queries. */
  async query(text: string, values: readonly unknown[]): Promise<QueryResult<Record<string, unknown>>> {
    if (this.#probe !== null) await this.#probe({ phase: this.#phase, step: 'query', when: 'before' })
    const result = await this.#send({ text, values: [...values] })
    if (this.#probe !== null) await this.#probe({ phase: this.#phase, step: 'query', when: 'after' })
    return result as QueryResult<Record<string, unknown>>
  }

  /** Gives the client back; one that is lost or still in a transaction is destroyed instead. */
  release(): void {
    if (this.#released) return
    this.#released = true
    const clean = this.#lost === null && !this.#stale && this.transactionStatus === 'I'
    if (clean) {
      this.#client.release()
    } else {
      this.#cutConnection()
      this.#client.release(this.#lost ?? true)
    }
    // After the release: the pool has put its own listener back by now, so that none is ever missing.
    this.#client.off('error', this.#onError)
    this.#client.off('end', this.#onEnd)
  }

  async #send(config: { text: string; values?: unknown[]; types?: never }): Promise<unknown> {
    const timer = setTimeout(() => this.giveUp(), this.#deadlineMs)
    try {
      const result = await this.#client.query(config)
      // In a doomed transaction every statement fails: this one tells that a savepoint has undone the error.
      if (this.transactionStatus === 'T') this.#firstError = null
      return result
    } catch (error) {
      this.#firstError ??= error
      throw this.#isLost(error)
        ? new PawlError('PAWL_CONNECTION_LOST', 'The connection to PostgreSQL broke during a statement.', {
            cause: error,
          })
        : error
    } finally {
      clearTimeout(timer)
    }
  }

  #isLost(error: unknown): boolean {
    const sqlState = sqlStateOf(error)
    if (sqlState !== null) {
      if (endsSession(sqlState)) this.#lose(error as Error)
      // A server that has become a replica stays one: the next connection may find the new primary.
      if (sqlState === READ_ONLY) this.#stale = true
      return endsSession(sqlState)
    }
    if (isSocketError(error)) this.#lose(error as Error)
    // The pool's own query_timeout: the statement goes on at the server, and whatever is sent now waits behind it.
    if (error instanceof Error && error.message === 'Query read timeout') this.giveUp()
    return this.#lost !== null
  }

  /** Declares the server dead and cuts the connection: every statement on it fails. */
  giveUp(): void {
    this.#lose(new Error(`No answer from PostgreSQL in ${this.#deadlineMs} ms`))
    this.#cutConnection()
  }

  #lose(error: Error): void {
    this.#lost ??= error
    this.#onLost?.()
  }

  /** Ending a client politely waits for an answer, which a dead server never gives. */
  #cutConnection(): void {
    this.#client.connection?.stream?.destroy()
  }
}
