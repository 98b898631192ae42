import type { PoolClient, QueryResult } from 'pg'
import { PawlError } from '../errors.js'
import { requestCancel } from './cancel-request.js'
import { type Begin, type Outgoing, outgoing, outgoingQuery, type Statement } from './outgoing.js'
import { isPreparedInVain, isSocketError, sqlStateOf } from './postgres-error.js'
import type { PreparedQueries } from './prepared-name.js'
import type { Probe } from './probe.js'
import { type Sender, SendQueue } from './send-queue.js'
import { SessionTransaction, type TransactionOptions } from './session-transaction.js'
import { beginAlone, standAlone } from './stand-alone.js'
import { wireOf } from './wire.js'

export type TextResult = QueryResult<Record<string, string | null>>

/** A client of `pg`, with the parts of it that its types leave out. */
type Client = PoolClient & {
  readonly connection?: { readonly stream?: { destroy(): void } }
  getTransactionStatus(): TransactionStatus
}

/** `I` idle, `T` in a transaction, `E` in a failed one; null where the client does not know. */
export type TransactionStatus = 'I' | 'T' | 'E' | null

export interface SessionOptions {
  /** How long one message may take before the connection is given up: more than any server-side time-out. */
  readonly statementDeadlineMs: number
  /** How long a statement that stands alone may wait for a lock, of its table as well. */
  readonly lockTimeoutMs: number
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
 * A client checked out of the pool. It listens for errors while it is out (an unheard one ends the process), gives up on a
 * server that does not answer, and goes back to the pool only if no transaction is open on it.
 */
export class Session {
  readonly #client: Client
  readonly #options: SessionOptions
  readonly #queue: SendQueue
  readonly #onError: (error: Error) => void
  readonly #onEnd: () => void
  readonly #framework: Sender
  #deadlineMs: number
  #onLost: (() => void) | null = null
  #lost: PawlError | null = null
  #stale = false
  #isCancelling = false
  #released = false

  constructor(client: PoolClient, place: string, options: SessionOptions) {
    this.#client = client
    this.#options = options
    this.#deadlineMs = options.statementDeadlineMs
    const wire = wireOf(client.constructor)
    this.#queue = new SendQueue(
      client,
      options.pipelining ? wire : { ...wire, sendTogether: null },
      place,
      options.probe,
      (deadlineMs) => this.giveUp(`No answer from PostgreSQL in ${deadlineMs} ms`),
    )
    const deadlineMs = (): number => this.#deadlineMs
    this.#framework = {
      get deadlineMs() {
        return deadlineMs()
      },
      isCommitting: true,
      refusal: () => this.#unlessIdle(),
      sending: () => {},
      answered: (error) => (error === null ? this.#unlessIdle() : this.explain(error)),
    }
    this.#onError = (error) => this.#lose(error)
    this.#onEnd = () => this.#lose(new Error('Connection ended'))
    this.#client.on('error', this.#onError)
    this.#client.on('end', this.#onEnd)
  }

  /** Goes on with other work, as if it had been released and taken again. False: it cannot, and has to be released. */
  enter(place: string): boolean {
    if (!this.#isClean) return false
    this.#queue.place = place
    this.#onLost = null
    return true
  }

  /** Calls back when the connection is lost, at once if it is already. */
  onceLost(listener: () => void): void {
    if (this.#lost === null) this.#onLost = listener
    else listener()
  }

  /** How long one of the framework's statements may take from now on before the connection is given up. */
  setDeadline(deadlineMs: number): void {
    this.#deadlineMs = deadlineMs
  }

  get transactionStatus(): TransactionStatus {
    return this.#client.getTransactionStatus()
  }

  /**
   * Runs a framework statement in a transaction of its own, which has committed when this returns. Values come back as text,
   * rows by column name. Its isolation and its patience with locks are its own, whatever the defaults of the database are.
   */
  async run(statement: Statement, values?: readonly unknown[]): Promise<TextResult> {
    const { lockTimeoutMs, preparedStatements: prepares } = this.#options
    const bound = values === undefined ? { statement } : { statement, values }
    const message = standAlone(bound, lockTimeoutMs).map((one) => outgoing(one, prepares))
    if (this.#queue.canJoin(message)) {
      const results = await this.#send(this.#framework, message)
      return results.at(-1) as TextResult
    }
    const transaction = this.begin(beginAlone(lockTimeoutMs), { ofStatement: statement.name })
    try {
      const [result] = await transaction.commit([bound])
      return result as TextResult
    } catch (error) {
      await transaction.rollBack()
      throw error
    }
  }

  /** Runs one of the application's queries outside of a phase. */
  async query(text: string, values: readonly unknown[]): Promise<QueryResult<Record<string, unknown>>> {
    const sender: Sender = {
      deadlineMs: this.#options.statementDeadlineMs,
      isCommitting: false,
      refusal: () => null,
      sending: () => {},
      answered: (error) => (error === null ? null : this.explain(error)),
    }
    const [result] = await this.#send(sender, [outgoingQuery(text, values, false, null)])
    return result as QueryResult<Record<string, unknown>>
  }

  /** Opens a transaction. BEGIN travels with its first statement, in one round trip where the client can. */
  begin(begin: Begin, options: Partial<Omit<TransactionOptions, 'begin'>> = {}): SessionTransaction {
    const {
      statementDeadlineMs: deadlineMs,
      preparedStatements: prepares,
      preparedQueries = null,
    } = this.#options
    return new SessionTransaction(this, this.#queue, {
      begin,
      deadlineMs,
      prepares,
      preparedQueries,
      ...options,
    })
  }

  /** Not to be given back to the pool, although nothing else is wrong with it. */
  spoil(): void {
    this.#stale = true
  }

  /** What to report of an error, after taking in what it says of the connection. */
  explain(error: unknown): unknown {
    if (this.#lost !== null) return this.#lost
    const sqlState = sqlStateOf(error)
    if (sqlState === null) {
      // A server's own error ends a session only by ending the connection, which is noticed by that.
      if (isSocketError(error)) return this.#lose(error as Error)
      // The pool's own query_timeout: the statement goes on at the server, and whatever is sent now waits behind it.
      if (error instanceof Error && error.message === 'Query read timeout') return this.giveUp(error.message)
      return error
    }
    // What the server has forgotten or cannot use any more, a new connection prepares again.
    if (isPreparedInVain(error)) return this.#lose(error as Error)
    // A server that has become a replica stays one: the next connection may find the new primary.
    if (sqlState === READ_ONLY) this.#stale = true
    return error
  }

  /** Somebody else has begun a transaction on this connection, or ended ours: what was done in it is anybody's guess. */
  loseToOthers(): PawlError {
    return this.#lose(new Error(OF_SOMEBODY_ELSE))
  }

  /** Declares the server dead and cuts the connection: every statement on it fails. */
  giveUp(why: string): PawlError {
    const mayCancel = !this.#queue.isCommitting
    const lost = this.#lose(new Error(why))
    this.#end(mayCancel)
    return lost
  }

  /** Ends the connection as the end of the process would. */
  cut(): void {
    this.#lose(new Error('The connection was cut'))
    this.#cut()
  }

  /** Gives the client back; one that is lost, still busy or in a transaction is destroyed instead. */
  release(): void {
    if (this.#released) return
    this.#released = true
    if (this.#isClean) {
      this.#client.release()
      this.#stopListening()
      return
    }
    const mayCancel = !this.#queue.isIdle && !this.#queue.isCommitting
    this.#lose(new Error('The session was released'))
    this.#end(mayCancel)
  }

  get #isClean(): boolean {
    return this.#lost === null && !this.#stale && this.#queue.isIdle && this.transactionStatus === 'I'
  }

  #send(sender: Sender, message: readonly Outgoing[]): Promise<readonly QueryResult[]> {
    return this.#released ? Promise.reject(usedAfterRelease()) : this.#queue.send(sender, message)
  }

  /** Statements that stand alone have to be alone: in somebody else's transaction, they would be undone with it. */
  #unlessIdle(): PawlError | null {
    return this.transactionStatus === 'I' ? null : this.loseToOthers()
  }

  #lose(cause: Error): PawlError {
    if (this.#lost === null) {
      this.#lost = new PawlError(
        'PAWL_CONNECTION_LOST',
        'The connection to PostgreSQL broke during a statement.',
        { cause },
      )
      this.#queue.close(this.#lost)
      this.#onLost?.()
      this.#onLost = null
    }
    return this.#lost
  }

  /**
   * Ends the connection. What is under way is cancelled first, and the pool gets its slot back when the server has been asked to:
   * a backend that waits does not notice that its client has gone. But not what commits: such a statement waits for locks no
   * longer than its time-out, so that it is likely to wait for a synchronous standby. To cancel that would have PostgreSQL show to
   * others what a failover can still lose.
   */
  #end(mayCancel: boolean): void {
    if (this.#isCancelling) return
    this.#isCancelling = mayCancel
    const cut = (): void => {
      this.#isCancelling = false
      if (this.#released) this.#destroy()
      else this.#cut()
    }
    if (mayCancel) requestCancel(this.#client, cut)
    else cut()
  }

  #destroy(): void {
    this.#cut()
    this.#client.release(this.#lost ?? true)
    this.#stopListening()
  }

  /** Ending a client politely waits for an answer, which a dead server never gives. */
  #cut(): void {
    this.#client.connection?.stream?.destroy()
  }

  /** After the release: the pool has put its own listener back by now, so that none is ever missing. */
  #stopListening(): void {
    this.#client.off('error', this.#onError)
    this.#client.off('end', this.#onEnd)
  }
}

const OF_SOMEBODY_ELSE =
  'The connection is in a transaction that Pawl did not begin. Find the code that leaves a BEGIN behind on the pool, ' +
  'or uses a client that it has released.'

const usedAfterRelease = (): PawlError =>
  new PawlError(
    'PAWL_TRANSACTION_CLOSED',
    'A connection of engine.db was used after it had been given back. Await every query inside of its transaction.',
  )
