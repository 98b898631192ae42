import type { PoolClient, QueryResult } from 'pg'
import { PawlError } from '../errors.js'
import { STATEMENTS_PER_DEADLINE } from '../limits.js'
import { batchesOn, type OnAnswered, type SendBatch } from './batch.js'
import {
  type Begin,
  type Bound,
  type Outgoing,
  outgoing,
  outgoingQuery,
  queryOf,
  type Statement,
} from './outgoing.js'
import {
  endsSession,
  isOfChangedRows,
  isPreparedInVain,
  isSocketError,
  sqlStateOf,
} from './postgres-error.js'
import type { PreparedQueries } from './prepared-name.js'
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
  /** Which of the queries of phases are to be kept prepared; null for none. */
  readonly preparedQueries?: PreparedQueries | null
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
  #phase: string
  #onLost: (() => void) | null = null
  readonly #sendBatch: SendBatch | null
  readonly #prepares: boolean
  readonly #preparedQueries: PreparedQueries | null
  #toBegin: Begin | null = null
  #beginning: Promise<void> | null = null
  #notBegun: { readonly error: unknown } | null = null
  #commitSent = false
  #idleTimer: NodeJS.Timeout | undefined
  readonly #statementDeadlineMs: number
  #deadlineMs: number
  #lost: Error | null = null
  #firstError: unknown = null
  #stale = false
  #released = false

  constructor(client: PoolClient, phase: string, options: SessionOptions) {
    this.#client = client
    this.#phase = phase
    this.#statementDeadlineMs = options.statementDeadlineMs
    this.#deadlineMs = options.statementDeadlineMs
    this.#probe = options.probe
    this.#prepares = options.preparedStatements
    this.#preparedQueries = options.preparedQueries ?? null
    this.#sendBatch = options.pipelining ? batchesOn(client.constructor) : null
    this.#onError = (error) => this.#lose(error)
    this.#onEnd = () => this.#lose(new Error('Connection ended'))
    this.#client.on('error', this.#onError)
    this.#client.on('end', this.#onEnd)
  }

  /**
   * Goes on with other work, as if it had been released and taken anew; false: it could not be, and has to be released.
   */
  enter(phase: string): boolean {
    if (!this.#isClean) return false
    this.#phase = phase
    this.#deadlineMs = this.#statementDeadlineMs
    this.#onLost = null
    this.#commitSent = false
    this.#firstError = null
    return true
  }

  /** Calls back when the connection is lost, at once if it is already. */
  onceLost(listener: () => void): void {
    if (this.#lost === null) this.#onLost = listener
    else listener()
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
  runTogether(statements: readonly Bound[]): Promise<readonly TextResult[]> {
    const prepares = this.#prepares
    return this.#exchange(statements.map((bound) => outgoing(bound, prepares)))
  }

  /** Runs one of the user's queries outside of a phase. */
  async query(text: string, values: readonly unknown[]): Promise<QueryResult<Record<string, unknown>>> {
    const [result] = await this.#exchange([outgoingQuery(text, values, false, null)])
    return result as QueryResult<Record<string, unknown>>
  }

  /** Runs one of a phase's queries, which the server may keep prepared. */
  async queryOfPhase(
    text: string,
    values: readonly unknown[],
  ): Promise<QueryResult<Record<string, unknown>>> {
    const name = values.length > 0 ? (this.#preparedQueries?.nameOf(text) ?? null) : null
    try {
      const [result] = await this.#exchange([outgoingQuery(text, values, this.#toBegin !== null, name)])
      return result as QueryResult<Record<string, unknown>>
    } catch (error) {
      if (name !== null) this.#doubtPrepared(text, error instanceof PawlError ? error.cause : error)
      throw error
    }
  }

  #doubtPrepared(text: string, error: unknown): void {
    if (isOfChangedRows(error)) this.#preparedQueries?.forget(text)
    // A value could not be sent: then `pg` has the statement closed, and goes on to believe that it is there.
    if (sqlStateOf(error) === null) this.#stale = true
  }

  /** Gives the client back; one that is lost or still in a transaction is destroyed instead. */
  release(): void {
    if (this.#released) return
    this.#released = true
    clearTimeout(this.#idleTimer)
    if (this.#isClean) {
      this.#client.release()
    } else {
      this.#cutConnection()
      this.#client.release(this.#lost ?? true)
    }
    // After the release: the pool has put its own listener back by now, so that none is ever missing.
    this.#client.off('error', this.#onError)
    this.#client.off('end', this.#onEnd)
  }

  get #isClean(): boolean {
    return this.#lost === null && !this.#stale && this.transactionStatus === 'I'
  }

  #exchange(statements: readonly Outgoing[]): Promise<readonly QueryResult[]> {
    if (this.#notBegun !== null) return Promise.reject(this.#notBegun.error)
    const begin = this.#toBegin
    if (begin !== null) {
      this.forgetBegin()
      const begun = this.#begin(begin, statements)
      const over = (): void => {
        this.#beginning = null
      }
      this.#beginning = begun.then(over, over)
      return begun
    }
    // Queries of a phase that are made at once: none may be sent before there is a transaction.
    return this.#beginning === null
      ? this.#transmit(statements)
      : this.#beginning.then(() => this.#exchange(statements))
  }

  async #begin(begin: Begin, statements: readonly Outgoing[]): Promise<readonly QueryResult[]> {
    if (this.#sendBatch !== null && statements.every(isJoinable)) {
      const opening = begin.together.map((bound) => outgoing(bound, this.#prepares))
      const results = await this.#transmit([...opening, ...statements], opening.length)
      return results.slice(opening.length)
    }
    await this.#transmit([{ ...outgoing({ statement: begin.alone }, false), joinable: false }], 1)
    return this.#transmit(statements)
  }

  /** In one round trip where that is possible. The first `opening` of them begin the transaction. */
  #transmit(statements: readonly Outgoing[], opening = 0): Promise<readonly QueryResult[]> {
    const sendBatch = statements.every(isJoinable) ? this.#sendBatch : null
    if (sendBatch === null) return this.#oneByOne(statements, opening)
    return this.#probe === null
      ? this.#together(sendBatch, statements, opening)
      : this.#probed(sendBatch, statements, opening)
  }

  async #oneByOne(statements: readonly Outgoing[], opening: number): Promise<QueryResult[]> {
    const results: QueryResult[] = []
    for (const statement of statements) {
      await this.#stopAt('before', statement)
      const [result] = await this.#awaited([statement], opening, (onAnswered) => {
        this.#client.query(queryOf(statement.config)).then(
          (answer) => onAnswered(null, [answer]),
          (error: unknown) => onAnswered(error, []),
        )
      })
      results.push(result as QueryResult)
      await this.#stopAt('after', statement)
    }
    return results
  }

  #together(
    sendBatch: SendBatch,
    statements: readonly Outgoing[],
    opening: number,
  ): Promise<readonly QueryResult[]> {
    const configs = statements.map(({ config }) => config)
    return this.#awaited(statements, opening, (onAnswered) => sendBatch(this.#client, configs, onAnswered))
  }

  async #probed(
    sendBatch: SendBatch,
    statements: readonly Outgoing[],
    opening: number,
  ): Promise<readonly QueryResult[]> {
    for (const statement of statements) await this.#stopAt('before', statement)
    const results = await this.#together(sendBatch, statements, opening)
    // Between them nobody could stop: they were one message.
    await this.#stopAt('after', statements.at(-1))
    return results
  }

  async #stopAt(when: 'before' | 'after', statement: Outgoing | undefined): Promise<void> {
    const step = statement?.step ?? null
    if (this.#probe !== null && step !== null) await this.#probe({ phase: this.#phase, step, when })
  }

  /** The answer to what `send` sends, or an error once the server has had time enough. */
  #awaited(
    statements: readonly Outgoing[],
    opening: number,
    send: (onAnswered: OnAnswered) => void,
  ): Promise<readonly QueryResult[]> {
    const deadlineMs = this.#deadlineMs * Math.ceil(statements.length / STATEMENTS_PER_DEADLINE)
    if (this.#lost === null && statements.some(({ step }) => step === 'commit')) this.#commitSent = true
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.giveUp(), deadlineMs)
      const onAnswered: OnAnswered = (error, results) => {
        clearTimeout(timer)
        if (error === null) {
          // In a doomed transaction every statement fails: this one tells that a savepoint has undone the error.
          if (this.transactionStatus === 'T') this.#firstError = null
          resolve(results)
        } else {
          reject(this.#failed(error, results.length < opening))
        }
      }
      try {
        send(onAnswered)
      } catch (error) {
        onAnswered(error, [])
      }
    })
  }

  /** What to tell of an error. `notBegun`: it came before there was a transaction. */
  #failed(error: unknown, notBegun: boolean): unknown {
    this.#firstError ??= error
    const told = this.#isLost(error)
      ? new PawlError('PAWL_CONNECTION_LOST', 'The connection to PostgreSQL broke during a statement.', {
          cause: error,
        })
      : error
    if (notBegun) {
      this.#notBegun = { error: told }
      // A part of it may have been executed, and the server's word on that may still be on its way.
      this.#stale = true
    }
    return told
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
    this.#onLost = null
  }

  /** Ending a client politely waits for an answer, which a dead server never gives. */
  #cutConnection(): void {
    this.#client.connection?.stream?.destroy()
  }
}

const isJoinable = ({ joinable }: Outgoing): boolean => joinable
