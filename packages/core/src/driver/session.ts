import type { PoolClient, QueryResult } from 'pg'
import { isConnectionLost, PawlError } from '../errors.js'
import { BorrowedClient } from './borrowed-client.js'
import { type Begin, type Bound, type Outgoing, outgoing, outgoingQuery, type Statement } from './outgoing.js'
import type { PreparedQueries } from './prepared-name.js'
import type { Probe } from './probe.js'
import type { ServerSigns } from './server-signs.js'
import { sqlStateOf } from './postgres-error.js'
import { type Sender, SendQueue } from './send-queue.js'
import { Silence } from './silence.js'
import { SessionTransaction, type TextResult, type TransactionOptions } from './session-transaction.js'
import type { Spread } from './spread.js'
import { type Alone, beginAlone, beginOverServers, readOverServers, standAlone } from './stand-alone.js'
import { wireOf } from './wire.js'

export interface SessionOptions {
  /** How long one message may take before the connection is given up: more than any server-side time-out. */
  readonly statementDeadlineMs: number
  /** How long a statement that stands alone may wait for a lock, including the lock on its table. */
  readonly lockTimeoutMs: number
  /** Sends statements that belong together in one round trip, if the client can. */
  readonly pipelining: boolean
  /** Has the server keep framework statements prepared. */
  readonly preparedStatements: boolean
  /** Which queries of phases are kept prepared; null for none. */
  readonly preparedQueries?: PreparedQueries | null
  readonly spread: Spread
  readonly probe: Probe | null
  /** Hears of every answer; null where nobody wants to know. */
  readonly signs?: ServerSigns | null
}

/**
 * What one piece of work does on one connection: framework statements that stand alone, the application's queries, and
 * transactions, all through one queue. Whether the connection still works is for its `BorrowedClient` to say.
 */
export class Session {
  readonly #client: BorrowedClient
  readonly #queue: SendQueue
  readonly #options: SessionOptions
  readonly #framework: Sender
  #deadlineMs: number
  #lockTimeoutMs: number

  constructor(client: PoolClient, place: string, options: SessionOptions) {
    this.#options = options
    this.#deadlineMs = options.statementDeadlineMs
    this.#lockTimeoutMs = options.lockTimeoutMs
    this.#client = new BorrowedClient(client, () => this.#queue)
    const wire = wireOf(client.constructor)
    this.#queue = new SendQueue(
      client,
      options.pipelining ? wire : { ...wire, sendTogether: null },
      place,
      options.probe,
      (deadlineMs) => this.#client.giveUp(new Silence(deadlineMs)),
      options.signs ?? null,
    )
    const deadlineMs = (): number => this.#deadlineMs
    this.#framework = {
      get deadlineMs() {
        return deadlineMs()
      },
      isCommitting: true,
      refusal: () => this.#unlessIdle(),
      sending: () => {},
      answered: (error) => (error === null ? this.#unlessIdle() : this.#client.explain(error)),
    }
  }

  /** Goes on with other work, as a session released and acquired again would. Returns false if it has to be released. */
  enter(place: string): boolean {
    if (!this.#client.isClean) return false
    this.#queue.place = place
    return true
  }

  /** Calls back when the connection is lost; at once if it already is. */
  onceLost(listener: () => void): void {
    this.#client.onceLost(listener)
  }

  /** How long one of the framework's statements may take from now on before the connection is given up. */
  setDeadline(deadlineMs: number): void {
    this.#deadlineMs = deadlineMs
  }

  /** From now on, a statement that stands alone waits for a lock no longer than this. */
  shortenLockTimeout(atMostMs: number): void {
    this.#lockTimeoutMs = Math.min(this.#lockTimeoutMs, atMostMs)
  }

  /**
   * Runs a framework statement in a transaction of its own, which has committed when this returns. Values come back as
   * text, rows by column name. Its isolation level and lock time-out are its own, whatever the database's defaults are.
   */
  async run(statement: Statement, values?: readonly unknown[], does: Alone = 'write'): Promise<TextResult> {
    const { preparedStatements: prepares, spread } = this.#options
    const bound = values === undefined ? { statement } : { statement, values }
    try {
      if (spread.overServers && does !== 'read') return await this.#runAlone(bound, does)
      const alone = spread.overServers
        ? readOverServers(bound, this.#deadlineMs)
        : standAlone(bound, this.#lockTimeoutMs, does, prepares && spread.inPartitions)
      const message = alone.map((one) => outgoing(one, prepares))
      if (!this.#queue.canJoin(message)) return await this.#runAlone(bound, does)
      const results = await this.#send(this.#framework, message)
      return results.at(-1) as TextResult
    } catch (error) {
      // Somebody may have distributed the tables since we looked, or brought them back together.
      if (sqlStateOf(error) === FEATURE_NOT_SUPPORTED) spread.doubt()
      throw error
    }
  }

  /** Runs framework statements in one transaction of their own, which has committed when this returns. Returns the last result. */
  async runTogether(statements: readonly Bound[]): Promise<TextResult> {
    return (await this.runEach(statements)).at(-1) as TextResult
  }

  /** The same, and returns the result of each. */
  runEach(statements: readonly Bound[]): Promise<readonly TextResult[]> {
    return this.#runInBlock(statements, 'write')
  }

  async #runAlone(statement: Bound, does: Alone): Promise<TextResult> {
    return (await this.#runInBlock([statement], does)).at(-1) as TextResult
  }

  async #runInBlock(statements: readonly Bound[], does: Alone): Promise<readonly TextResult[]> {
    const begin = this.#options.spread.overServers
      ? beginOverServers(this.#lockTimeoutMs, this.#deadlineMs)
      : beginAlone(this.#lockTimeoutMs, does)
    const ofStatement = statements.at(-1)?.statement.name ?? ''
    const transaction = this.begin(begin, { deadlineMs: this.#deadlineMs, ofStatement })
    try {
      const results = await transaction.commit(statements)
      // The last one is that of COMMIT.
      return results.slice(-1 - statements.length, -1)
    } catch (error) {
      await transaction.rollBack()
      throw transaction.mayHaveCommitted ? unknownCommit(error) : error
    }
  }

  /**
   * Runs framework statements that only read, in one transaction. Each sees everything that the ones before it have seen,
   * and what was committed since: under another isolation level, the last would see no more than the first.
   */
  async runInOrder(statements: readonly [Bound, ...Bound[]]): Promise<readonly TextResult[]> {
    const { preparedStatements: prepares } = this.#options
    const [first, ...others] = statements
    const bound = [...standAlone(first, this.#lockTimeoutMs, 'write'), ...others]
    const message = bound.map((one) => outgoing(one, prepares))
    if (this.#queue.canJoin(message)) {
      const results = await this.#send(this.#framework, message)
      return results.slice(-statements.length) as readonly TextResult[]
    }
    const { name: ofStatement } = (others.at(-1) ?? first).statement
    const transaction = this.begin(beginAlone(this.#lockTimeoutMs, 'write'), { ofStatement })
    try {
      return await transaction.commit(statements)
    } catch (error) {
      await transaction.rollBack()
      throw error
    }
  }

  /** Runs one of the application's queries outside a phase. */
  async query(text: string, values: readonly unknown[]): Promise<QueryResult<Record<string, unknown>>> {
    const sender: Sender = {
      deadlineMs: this.#options.statementDeadlineMs,
      isCommitting: false,
      refusal: () => null,
      sending: () => {},
      answered: (error) => (error === null ? null : this.#client.explain(error)),
    }
    const [result] = await this.#send(sender, [outgoingQuery(text, values, false, null)])
    return result as QueryResult<Record<string, unknown>>
  }

  /** Opens a transaction. BEGIN travels with its first statement, in one round trip if the client can. */
  begin(begin: Begin, options: Partial<Omit<TransactionOptions, 'begin'>> = {}): SessionTransaction {
    const {
      statementDeadlineMs: deadlineMs,
      preparedStatements: prepares,
      preparedQueries = null,
    } = this.#options
    return new SessionTransaction(this.#client, this.#queue, {
      begin,
      deadlineMs,
      prepares,
      preparedQueries,
      spread: this.#options.spread,
      ...options,
    })
  }

  /** Declares the server dead and cuts the connection: every statement on it fails. */
  giveUp(why: string): void {
    this.#client.giveUp(new Error(why))
  }

  /** Ends the connection as the end of the process would. */
  cut(): void {
    this.#client.cut()
  }

  /** Returns the client to the pool; one that is lost, still busy or in a transaction is destroyed instead. */
  release(): void {
    this.#client.release()
  }

  #send(sender: Sender, message: readonly Outgoing[]): Promise<readonly QueryResult[]> {
    return this.#client.isReturned ? Promise.reject(usedAfterRelease()) : this.#queue.send(sender, message)
  }

  /** Statements that stand alone have to be alone: in somebody else's transaction, they would be undone with it. */
  #unlessIdle(): PawlError | null {
    return this.#client.transactionStatus === 'I' ? null : this.#client.loseToOthers()
  }
}

const FEATURE_NOT_SUPPORTED = '0A000'

/** Whoever wrote finds out as if the connection had broken: nobody knows whether it was committed. */
const unknownCommit = (cause: unknown): PawlError =>
  isConnectionLost(cause)
    ? (cause as PawlError)
    : new PawlError('PAWL_CONNECTION_LOST', 'PostgreSQL could not say whether a statement was committed.', {
        cause,
      })

const usedAfterRelease = (): PawlError =>
  new PawlError(
    'PAWL_TRANSACTION_CLOSED',
    'A connection of engine.db was used after it had been released. Await every query inside its transaction.',
  )
