import type { QueryResult } from 'pg'
import { PawlError } from '../errors.js'
import type { BorrowedClient } from './borrowed-client.js'
import type { Executed } from './pg-protocol.js'
import { alwaysTheSame, type Begin, type Bound, type Outgoing, outgoing, outgoingQuery } from './outgoing.js'
import { isOfChangedRows, sqlStateOf } from './postgres-error.js'
import { preparedAs, type PreparedQueries } from './prepared-name.js'
import type { Sender, SendQueue } from './send-queue.js'

export interface TransactionOptions {
  readonly begin: Begin
  /** How long each of its messages may take. */
  readonly deadlineMs: number
  /**
   * Gives the connection up if nothing is sent for this long. The server has a time-out for idle transactions, but it does
   * not know of one whose BEGIN is still waiting.
   */
  readonly idleMs?: number
  /**
   * Set if it is only the transaction of one statement, with this name: tests stop before that statement and after its
   * COMMIT, and nowhere else.
   */
  readonly ofStatement?: string
  /** Whether the server keeps framework statements prepared. */
  readonly prepares: boolean
  readonly preparedQueries: PreparedQueries | null
}

type AnyResult = QueryResult<Record<string, unknown>>

/** What a framework statement returns: values as text, rows by column name. */
export type TextResult = QueryResult<Record<string, string | null>>

/**
 * One transaction on a session: from its BEGIN, which waits for the first statement, to COMMIT or ROLLBACK. None of its
 * statements is ever executed outside it: a statement goes out only while the server says that the transaction is open, and
 * none is accepted once COMMIT or ROLLBACK has been handed over.
 */
export class SessionTransaction implements Sender {
  readonly deadlineMs: number
  readonly #client: BorrowedClient
  readonly #queue: SendQueue
  readonly #options: TransactionOptions
  readonly #commit: Outgoing
  #stage: 'waiting' | 'beginning' | 'open' | 'ending' = 'waiting'
  /** The statements that begin it, in front of the first message. */
  #opening: readonly Outgoing[] = []
  #begun = false
  #lastText = ''
  #notBegun: { readonly error: unknown } | null = null
  #endedEarly = false
  #commitSent = false
  #firstError: unknown = null
  #idleTimer: NodeJS.Timeout | undefined

  constructor(client: BorrowedClient, queue: SendQueue, options: TransactionOptions) {
    this.#client = client
    this.#queue = queue
    this.#options = options
    this.deadlineMs = options.deadlineMs
    const { idleMs, ofStatement: step } = options
    this.#commit =
      step === undefined
        ? outgoing(COMMIT, options.prepares)
        : { ...outgoing(SILENT_COMMIT, false), step: step === '' ? null : step, stopsOnly: 'after' }
    if (idleMs !== undefined)
      this.#idleTimer = setTimeout(() => client.giveUp(`Nothing was sent for ${idleMs} ms`), idleMs)
  }

  /** The first error that a query met since all was well; the application may have swallowed it. */
  get firstError(): unknown {
    return this.#firstError
  }

  /** Whether it can no longer commit. */
  get isDoomed(): boolean {
    return this.#notBegun !== null || (this.#stage === 'open' && this.#client.transactionStatus === 'E')
  }

  /** Whether one of its own queries ended it. What came before that may have been committed. */
  get endedEarly(): boolean {
    return this.#endedEarly
  }

  /** Whether a COMMIT may have reached the server. */
  get commitSent(): boolean {
    return this.#commitSent
  }

  get isCommitting(): boolean {
    return this.#commitSent
  }

  /** Sends BEGIN now, by itself. */
  async start(): Promise<void> {
    await this.#send([])
  }

  /** Runs one of the application's queries, which the server may keep prepared. */
  async query(text: string, values: readonly unknown[]): Promise<AnyResult> {
    const name = values.length > 0 ? (this.#options.preparedQueries?.nameOf(text) ?? null) : null
    try {
      const [result] = await this.#send([outgoingQuery(text, values, this.#stage === 'waiting', name)])
      return result as AnyResult
    } catch (error) {
      if (name !== null) this.#doubtPrepared(text, error instanceof PawlError ? error.cause : error)
      throw error
    }
  }

  /** Runs a framework statement in this transaction. */
  async run(bound: Bound): Promise<TextResult> {
    const [result] = await this.#send([outgoing(bound, this.#options.prepares)])
    return result as TextResult
  }

  /**
   * Runs framework statements and commits, in one round trip if the client can: if one of them fails, COMMIT is not
   * executed. The last result is that of COMMIT. From here on the transaction accepts nothing else.
   */
  commit(statements: readonly Bound[]): Promise<readonly TextResult[]> {
    const { prepares, ofStatement } = this.#options
    const last = statements.map((bound) => outgoing(bound, prepares))
    const stops =
      ofStatement === undefined ? last : last.map((one) => ({ ...one, stopsOnly: 'before' as const }))
    const sent = this.#send([...stops, this.#commit])
    this.#stage = 'ending'
    return sent as Promise<readonly TextResult[]>
  }

  /**
   * Undoes the transaction if that is still possible; if not, releasing the session destroys the connection, which also
   * undoes it. What has not gone out yet never does.
   */
  async rollBack(): Promise<void> {
    clearTimeout(this.#idleTimer)
    const begun = this.#stage !== 'waiting'
    this.#stage = 'ending'
    this.#queue.drop(this, closed())
    if (!begun || this.#notBegun !== null) return
    try {
      const rollback = this.#options.ofStatement === undefined ? ROLLBACK : { ...ROLLBACK, step: null }
      await this.#queue.send(new Rollback(this.#client, this.deadlineMs), [rollback])
    } catch {
      // The first error is the one to report; the session knows that it is not clean.
    }
  }

  #send(statements: readonly Outgoing[]): Promise<readonly QueryResult[]> {
    if (this.#stage === 'ending') return Promise.reject(closed())
    if (this.#stage !== 'waiting') return this.#queue.send(this, statements)
    clearTimeout(this.#idleTimer)
    this.#stage = 'beginning'
    const { alone, together } = this.#options.begin
    const joined = together.map((bound) => outgoing(bound, this.#options.prepares))
    const opening =
      joined.length > 0 && this.#queue.canJoin([...joined, ...statements])
        ? joined
        : [{ ...outgoing({ statement: alone }, false), joinable: false }]
    this.#opening = opening
    return this.#queue
      .send(this, [...opening, ...statements])
      .then((results) => results.slice(opening.length))
  }

  refusal(message: readonly Outgoing[]): unknown {
    if (this.#notBegun !== null) return this.#notBegun.error
    const { transactionStatus: status } = this.#client
    if (message[0] === this.#opening[0]) return status === 'I' ? null : this.#client.loseToOthers()
    if (status === 'I') this.#endedEarly = true
    return this.#endedEarly ? closed() : null
  }

  sending(statements: readonly Outgoing[]): void {
    if (statements.includes(this.#commit)) this.#commitSent = true
    this.#lastText = statements.at(-1)?.config.text ?? ''
  }

  answered(error: unknown, results: readonly QueryResult[], executed: readonly Executed[]): unknown {
    const told = error === null ? null : this.#client.explain(error)
    if (told !== null) this.#firstError ??= told
    // None of its statements goes out before the message that begins it, so the first answer is the answer to that message.
    const opening = this.#begun ? 0 : this.#opening.length
    if (results.length < opening) {
      // If a part of it was executed, the server says that a transaction is open, and the client is destroyed.
      this.#notBegun = { error: told }
      return told
    }
    this.#begun = true
    if (this.#stage === 'beginning') this.#stage = 'open'
    const { transactionStatus: status } = this.#client
    // In a failed transaction every statement fails: the success of this one shows that a savepoint has undone the error.
    if (told === null && status === 'T') this.#firstError = null
    if (!this.#commitSent && (status === 'I' || this.#hasEnded([...results.slice(opening), ...executed])))
      this.#endedEarly = true
    return told
  }

  /**
   * Whether a query ended the transaction and began another, which the status alone does not show. A text of several
   * statements has several results.
   */
  #hasEnded(executed: readonly Executed[]): boolean {
    return executed.flat().some(({ command }) => {
      // ROLLBACK is also the answer to going back to a savepoint.
      if (command === 'ROLLBACK') return CHAINS.test(this.#lastText.replaceAll(COMMENT_OR_LITERAL, ' '))
      return command === 'COMMIT' || command === 'BEGIN' || command === 'START'
    })
  }

  #doubtPrepared(text: string, error: unknown): void {
    if (isOfChangedRows(error)) this.#options.preparedQueries?.forget(text)
    // A value could not be sent: then `pg` closes the statement, and goes on believing that it is prepared.
    if (sqlStateOf(error) === null) this.#client.spoil()
  }
}

const CHAINS = /\b(?:rollback|abort)(?:\s+(?:work|transaction))?\s+and\s+chain\b/i
const COMMENT_OR_LITERAL = /\/\*[^]*?\*\/|--[^\n]*|'(?:[^']|'')*'|"(?:[^"]|"")*"/g

const COMMIT = alwaysTheSame({ name: 'commit', text: 'COMMIT', preparedAs: preparedAs('commit', 'COMMIT') })
/** Uses PostgreSQL's other word for COMMIT, so that whoever watches the wire can tell it from that of a phase. */
const SILENT_COMMIT = alwaysTheSame({ name: '', text: 'END' })
const ROLLBACK = outgoing({ statement: { name: 'rollback', text: 'ROLLBACK' } }, false)

/** Sends ROLLBACK, if there is a transaction left to undo. */
class Rollback implements Sender {
  readonly isCommitting = false
  readonly deadlineMs: number
  readonly #client: BorrowedClient

  constructor(client: BorrowedClient, deadlineMs: number) {
    this.#client = client
    this.deadlineMs = deadlineMs
  }

  refusal(): unknown {
    return this.#client.transactionStatus === 'I' ? closed() : null
  }

  sending(): void {}

  answered(error: unknown): unknown {
    return error === null ? null : this.#client.explain(error)
  }
}

const closed = (): PawlError =>
  new PawlError(
    'PAWL_TRANSACTION_CLOSED',
    'A query came after its transaction had ended. Await every query inside of it.',
  )
