import type { PoolClient, QueryResult } from 'pg'
import { PawlError } from '../errors.js'
import { STATEMENTS_PER_DEADLINE } from '../limits.js'
import { batchesOn, type SendBatch } from './batch.js'
import { type Begin, type Bound, type Outgoing, outgoing, queryOf, type Statement } from './outgoing.js'
import { endsSession, isPreparedInVain, isSocketError, sqlStateOf } from './postgres-error.js'
import type { Probe } from './probe.js'

type TextResult = QueryResult<Record<string, string | null>>

/** A client of `pg`, with the parts of it that its types leave out. */
type Client = PoolClient & {
  readonly connection?: { readonly stream?: { destroy(): void } }
  /** `I` idle, `T` in a transaction, `E` in a failed one; null where the client does not know. */
  getTransactionStatus(): 'I' | 'T' | 'E' | null
}

export interface SessionOptions {
  /** Deadline of a statement until the session is told another. */
  readonly statementDeadlineMs: number
  /** Sends statements that belong together in one round trip, where the client can. */
  readonly pipelining: boolean
  /** Has the server keep framework statements prepared. */
  readonly preparedStatements: boolean
  readonly probe: Probe | null
}

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
  readonly #sendBatch: SendBatch | null
  readonly #prepares: boolean
  #toBegin: Begin | null = null
  #beginning: Promise<void> | null = null
  #notBegun: { readonly error: unknown } | null = null
  #commitSent = false
  #idleTimer: NodeJS.Timeout | undefined
  #deadlineMs: number
  #lost: Error | null = null
  #firstError: unknown = null
  #stale = false
  #released = false

  constructor(client: PoolClient, phase: string, options: SessionOptions) {
    this.#client = client
    this.#phase = phase
    this.#deadlineMs = options.statementDeadlineMs
    this.#probe = options.probe
    this.#prepares = options.preparedStatements
    this.#sendBatch = options.pipelining ? batchesOn(client.constructor) : null
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

  /** Whether a COMMIT may have reached the server. */
  get commitSent(): boolean {
    return this.#commitSent
  }

  /**
   * Begins a transaction with the next statement, in one round trip. If BEGIN fails, that is not executed. Until then the
   * server cannot tell that nothing comes; so who waits longer than `idleMs` loses the connection all the same.
   */
  beginWithNext(begin: Begin, idleMs: number): void {
    this.#toBegin = begin
    this.#idleTimer = setTimeout(() => this.#giveUp(`Nothing was sent for ${idleMs} ms`), idleMs)
  }

  /** Forgets a BEGIN that no statement has followed. False: there is none to forget. */
  forgetBegin(): boolean {
    const pending = this.#toBegin !== null
    this.#toBegin = null
    clearTimeout(this.#idleTimer)
    return pending
  }

  /** Runs a framework statement. Values come back as text, rows by column name. */
  async run(statement: Statement, values?: readonly unknown[]): Promise<TextResult> {
    const [result] = await this.runTogether([values === undefined ? { statement } : { statement, values }])
    return result as TextResult
  }

  /** Runs framework statements in one round trip, where the client can. Those after a failed one are not executed. */
  async runTogether(statements: readonly Bound[]): Promise<TextResult[]> {
    return (await this.#exchange(statements.map((bound) => outgoing(bound, this.#prepares)))) as TextResult[]
  }

  /** Runs one of the user's queries. */
  async query(text: string, values: readonly unknown[]): Promise<QueryResult<Record<string, unknown>>> {
    // Without values, it may be several statements in one text: a message of its own.
    const joinable = values.length > 0 && this.#toBegin !== null
    const [result] = await this.#exchange([
      { step: 'query', config: { text, values: [...values] }, joinable },
    ])
    return result as QueryResult<Record<string, unknown>>
  }

  /** Gives the client back; one that is lost or still in a transaction is destroyed instead. */
  release(): void {
    if (this.#released) return
    this.#released = true
    clearTimeout(this.#idleTimer)
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

  #exchange(statements: readonly Outgoing[]): Promise<QueryResult[]> {
    const begin = this.#toBegin
    if (begin !== null) {
      this.forgetBegin()
      const begun = this.#begin(begin, statements)
      this.#beginning = begun.then(NOTHING, NOTHING)
      return begun
    }
    return this.#beginning === null
      ? this.#transmit(statements)
      : this.#onceBegun(this.#beginning, statements)
  }

  /** Queries of a phase that are made at once: none may be sent before there is a transaction. */
  async #onceBegun(beginning: Promise<void>, statements: readonly Outgoing[]): Promise<QueryResult[]> {
    await beginning
    if (this.#notBegun !== null) throw this.#notBegun.error
    return this.#transmit(statements)
  }

  async #begin(begin: Begin, statements: readonly Outgoing[]): Promise<QueryResult[]> {
    const joined = this.#sendBatch !== null && statements.every(({ joinable }) => joinable)
    const opening = joined
      ? begin.together.map((bound) => outgoing(bound, this.#prepares))
      : [{ ...outgoing({ statement: begin.alone }, false), joinable: false }]
    let answered = 0
    try {
      const first = joined ? [...opening, ...statements] : opening
      const results = await this.#transmit(first, () => answered++)
      return joined ? results.slice(opening.length) : await this.#transmit(statements)
    } catch (error) {
      if (answered < opening.length) {
        this.#notBegun = { error }
        // A part of it may have been executed, and the server's word on that may still be on its way.
        this.#stale = true
      }
      throw error
    }
  }

  /** In one round trip where that is possible. `onAnswered` is called for each statement that was executed. */
  #transmit(statements: readonly Outgoing[], onAnswered = NOTHING): Promise<QueryResult[]> {
    const sendBatch = statements.every(({ joinable }) => joinable) ? this.#sendBatch : null
    return sendBatch === null
      ? this.#oneByOne(statements, onAnswered)
      : this.#together(sendBatch, statements, onAnswered)
  }

  async #oneByOne(statements: readonly Outgoing[], onAnswered: () => void): Promise<QueryResult[]> {
    const results: QueryResult[] = []
    for (const statement of statements) {
      const { step, config } = statement
      if (this.#probe !== null) await this.#stopAt('before', step)
      results.push(await this.#send([statement], () => this.#client.query(queryOf(config))))
      onAnswered()
      if (this.#probe !== null) await this.#stopAt('after', step)
    }
    return results
  }

  async #together(
    sendBatch: SendBatch,
    statements: readonly Outgoing[],
    onAnswered: () => void,
  ): Promise<QueryResult[]> {
    if (this.#probe !== null) for (const { step } of statements) await this.#stopAt('before', step)
    const configs = statements.map(({ config }) => config)
    const results = await this.#send(statements, () => sendBatch(this.#client, configs, onAnswered))
    // Between them nobody could stop: they were one message.
    if (this.#probe !== null) await this.#stopAt('after', statements.at(-1)?.step ?? null)
    return results
  }

  async #stopAt(when: 'before' | 'after', step: string | null): Promise<void> {
    if (this.#probe !== null && step !== null) await this.#probe({ phase: this.#phase, step, when })
  }

  async #send<T>(statements: readonly Outgoing[], send: () => Promise<T>): Promise<T> {
    const deadlineMs = this.#deadlineMs * Math.ceil(statements.length / STATEMENTS_PER_DEADLINE)
    const timer = setTimeout(() => this.giveUp(), deadlineMs)
    if (this.#lost === null && statements.some(({ step }) => step === 'commit')) this.#commitSent = true
    try {
      const result = await send()
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
      // What the server has forgotten or cannot use any more, a new connection prepares anew.
      const inVain = isPreparedInVain(error)
      if (inVain) this.#lose(error as Error)
      return endsSession(sqlState) || inVain
    }
    if (isSocketError(error)) this.#lose(error as Error)
    // The pool's own query_timeout: the statement goes on at the server, and whatever is sent now waits behind it.
    if (error instanceof Error && error.message === 'Query read timeout') this.giveUp()
    return this.#lost !== null
  }

  /** Declares the server dead and cuts the connection: every statement on it fails. */
  giveUp(): void {
    this.#giveUp(`No answer from PostgreSQL in ${this.#deadlineMs} ms`)
  }

  #giveUp(why: string): void {
    this.#lose(new Error(why))
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

const NOTHING = (): void => {}
