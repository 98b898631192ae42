import type { PoolClient } from 'pg'
import { PawlError } from '../errors.js'
import { requestCancel } from './cancel-request.js'
import { isPreparedInVain, isSocketError, sqlStateOf } from './postgres-error.js'

/** A client of `pg`, including the parts that its types leave out. */
type Client = PoolClient & {
  readonly connection?: { readonly stream?: { destroy(): void } }
  getTransactionStatus(): TransactionStatus
}

/** `I` idle, `T` in a transaction, `E` in a failed one; null if the client does not know. */
export type TransactionStatus = 'I' | 'T' | 'E' | null

/** What is happening on the connection, as its send queue knows it. */
export interface Traffic {
  readonly isIdle: boolean
  /** Whether the message under way commits. */
  readonly isCommitting: boolean
  /** Called once, when the connection is lost: nothing more can be sent. */
  close(error: PawlError): void
}

/** read_only_sql_transaction */
const READ_ONLY = '25006'

/**
 * A client checked out of the pool, and its health. It listens for errors while it is out (an unhandled one ends the
 * process), learns from errors whether the connection still works, and goes back to the pool only if no transaction is open
 * on it.
 */
export class BorrowedClient {
  readonly #client: Client
  readonly #traffic: () => Traffic
  readonly #onError = (error: Error): void => void this.#lose(error)
  readonly #onEnd = (): void => void this.#lose(new Error('Connection ended'))
  #onLost: (() => void) | null = null
  #lost: PawlError | null = null
  #isStale = false
  #isCancelling = false
  #isReturned = false

  /** `traffic` is a function because the send queue needs this client as much as the client needs the queue. */
  constructor(client: PoolClient, traffic: () => Traffic) {
    this.#client = client
    this.#traffic = traffic
    this.#client.on('error', this.#onError)
    this.#client.on('end', this.#onEnd)
  }

  get transactionStatus(): TransactionStatus {
    return this.#client.getTransactionStatus()
  }

  get isReturned(): boolean {
    return this.#isReturned
  }

  /** Whether somebody else may use it as it is. */
  get isClean(): boolean {
    return this.#lost === null && !this.#isStale && this.#traffic().isIdle && this.transactionStatus === 'I'
  }

  /** Calls back when the connection is lost; at once if it already is. Replaces the listener before it. */
  onceLost(listener: () => void): void {
    if (this.#lost === null) this.#onLost = listener
    else listener()
  }

  /** Keeps it from going back to the pool, although nothing else is wrong with it. */
  spoil(): void {
    this.#isStale = true
  }

  /** Returns the error to report, after learning what it says about the connection. */
  explain(error: unknown): unknown {
    if (this.#lost !== null) return this.#lost
    const sqlState = sqlStateOf(error)
    if (sqlState === null) {
      // A server error ends a session only by ending the connection, and that is noticed anyway.
      if (isSocketError(error)) return this.#lose(error as Error)
      // The pool's own query_timeout: the statement goes on at the server, and whatever is sent now waits behind it.
      if (error instanceof Error && error.message === 'Query read timeout') return this.giveUp(error)
      return error
    }
    // What the server has forgotten or can no longer use is prepared again on a new connection.
    if (isPreparedInVain(error)) return this.#lose(error as Error)
    // A server that has become a replica stays one: the next connection may find the new primary.
    if (sqlState === READ_ONLY) this.#isStale = true
    return error
  }

  /** Somebody else has begun a transaction on this connection, or ended ours: nobody knows what was done in it. */
  loseToOthers(): PawlError {
    return this.#lose(new Error(OF_SOMEBODY_ELSE))
  }

  /** Declares the server dead and cuts the connection: every statement on it fails. */
  giveUp(why: Error): PawlError {
    const mayCancel = !this.#traffic().isCommitting
    const lost = this.#lose(why)
    this.#end(mayCancel)
    return lost
  }

  /** Ends the connection as the end of the process would. */
  cut(): void {
    this.#lose(new Error('The connection was cut'))
    this.#cutSocket()
  }

  /** Returns the client to the pool; one that is lost, still busy or in a transaction is destroyed instead. */
  release(): void {
    if (this.#isReturned) return
    this.#isReturned = true
    if (this.isClean) {
      this.#client.release()
      this.#stopListening()
      return
    }
    const { isIdle, isCommitting } = this.#traffic()
    this.#lose(new Error('The session was released'))
    this.#end(!isIdle && !isCommitting)
  }

  #lose(cause: Error): PawlError {
    if (this.#lost === null) {
      this.#lost = new PawlError(
        'PAWL_CONNECTION_LOST',
        'The connection to PostgreSQL broke during a statement.',
        { cause },
      )
      this.#traffic().close(this.#lost)
      this.#onLost?.()
      this.#onLost = null
    }
    return this.#lost
  }

  /**
   * Ends the connection. What is under way is cancelled first, and the pool gets its slot back only after the server has
   * been asked to cancel: a backend that waits does not notice that its client has gone. A statement that commits is not
   * cancelled. It waits for locks no longer than its time-out, so it is probably waiting for a synchronous standby, and
   * cancelling that would make PostgreSQL show others what a failover can still lose.
   */
  #end(mayCancel: boolean): void {
    if (this.#isCancelling) return
    this.#isCancelling = mayCancel
    const cut = (): void => {
      this.#isCancelling = false
      if (this.#isReturned) this.#destroy()
      else this.#cutSocket()
    }
    if (mayCancel) requestCancel(this.#client, cut)
    else cut()
  }

  #destroy(): void {
    this.#cutSocket()
    this.#client.release(this.#lost ?? true)
    this.#stopListening()
  }

  /** Ending a client politely waits for an answer, which a dead server never sends. */
  #cutSocket(): void {
    this.#client.connection?.stream?.destroy()
  }

  /** Called after the release: by then the pool has put its own listener back, so there is never a moment without one. */
  #stopListening(): void {
    this.#client.off('error', this.#onError)
    this.#client.off('end', this.#onEnd)
  }
}

const OF_SOMEBODY_ELSE =
  'The connection is in a transaction that Pawl did not begin. Find the code that leaves a BEGIN behind on the pool, ' +
  'or uses a client that it has released.'
