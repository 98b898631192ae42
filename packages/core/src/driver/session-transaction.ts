import type { QueryResult } from 'pg'
import { isConnectionLost, PawlError } from '../errors.js'
import type { BorrowedClient } from './borrowed-client.js'
import { LaterWrites } from './later-writes.js'
import type { Executed } from './pg-protocol.js'
import { alwaysTheSame, type Begin, type Bound, type Outgoing, outgoing, outgoingQuery } from './outgoing.js'
import { isOfChangedRows, sqlStateOf } from './postgres-error.js'
import { preparedAs, type PreparedQueries } from './prepared-name.js'
import type { Sender, SendQueue } from './send-queue.js'
import type { Spread } from './spread.js'

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
   * The name of its only statement, for a transaction that was opened for one statement alone. Tests stop before that
   * statement and after its COMMIT, and nowhere else.
   */
  readonly ofStatement?: string
  /** Whether the server keeps framework statements prepared. */
  readonly prepares: boolean
  readonly preparedQueries: PreparedQueries | null
  readonly spread: Spread
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
  #commitRefused = false
  #leaves = false
  #underWay = 0
  readonly #later = new LaterWrites()
  #sent: readonly Outgoing[] = []
  #failedWriteOf: string | null = null
  #firstError: unknown = null
  #lastError: unknown = null
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
      this.#idleTimer = setTimeout(
        () => client.giveUp(new Error(`Nothing was sent for ${idleMs} ms`)),
        idleMs,
      )
  }

  /** The first error since the transaction was last healthy. The application may have swallowed it. */
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

  /**
   * Whether the application's queries may have left something that later ones in this transaction meet: a setting, a role, a
   * savepoint, a cursor, or a query that is still under way. Everything but rows counts.
   */
  get hasLeftovers(): boolean {
    return this.#leaves || this.#underWay > 0
  }

  /** Who handed over the statement, by `later`, that the last error is about; null if it is about another statement. */
  get failedWriteOf(): string | null {
    return this.#failedWriteOf
  }

  /** Whether a COMMIT may have reached the server. */
  get commitSent(): boolean {
    return this.#commitSent
  }

  /**
   * Whether it may have committed although it has failed: the connection broke, or COMMIT was answered with an error, which
   * does not rule it out on every server.
   */
  get mayHaveCommitted(): boolean {
    if (!this.#commitSent) return false
    return isConnectionLost(this.#lastError) || (this.#commitRefused && !isFinalOn(this.#options.spread))
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
    this.#underWay++
    try {
      const mayJoin = this.#stage === 'waiting' || this.#later.areWaiting
      const [result] = await this.#send([outgoingQuery(text, values, mayJoin, name)])
      if (MAY_LEAVE.test(text) || [result].flat().some((each) => !LEAVES_NOTHING.has(each?.command ?? '')))
        this.#leaves = true
      return result as AnyResult
    } catch (error) {
      // A savepoint may have undone it, and be open still.
      this.#leaves = true
      if (name !== null) this.#doubtPrepared(text, error instanceof PawlError ? error.cause : error)
      throw error
    } finally {
      this.#underWay--
    }
  }

  /**
   * Hands over a single statement of the application whose result nobody needs. It travels with whatever is sent next, in
   * front of it: a query of a phase, or the statements that commit. `of`: who hands it over.
   */
  later(text: string, values: readonly unknown[], of: string): void {
    const name = this.#options.preparedQueries?.nameOf(text) ?? null
    const statement = { ...outgoingQuery(text, values, true, name), joinable: true }
    if (MAY_LEAVE.test(text)) this.#leaves = true
    this.#later.add(statement, of)
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
    this.#later.drop()
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
    const later = this.#later.take()
    if (this.#stage === 'waiting') {
      const opening = this.#open([...later, ...statements])
      return this.#sendAfter([...opening, ...later], statements)
    }
    return later.length === 0 ? this.#queue.send(this, statements) : this.#sendAfter(later, statements)
  }

  /** Sends statements after others whose results nobody needs. */
  #sendAfter(first: readonly Outgoing[], statements: readonly Outgoing[]): Promise<readonly QueryResult[]> {
    return this.#queue.send(this, [...first, ...statements]).then((results) => results.slice(first.length))
  }

  /** Returns what begins the transaction: in the same message as these statements, if they can share one. */
  #open(statements: readonly Outgoing[]): readonly Outgoing[] {
    clearTimeout(this.#idleTimer)
    this.#stage = 'beginning'
    const { alone, together } = this.#options.begin
    const joined = together.map((bound) => outgoing(bound, this.#options.prepares))
    this.#opening =
      joined.length > 0 && this.#queue.canJoin([...joined, ...statements])
        ? joined
        : [{ ...outgoing({ statement: alone }, false), joinable: false }]
    return this.#opening
  }

  refusal(message: readonly Outgoing[]): unknown {
    if (this.#notBegun !== null) return this.#notBegun.error
    const { transactionStatus: status } = this.#client
    if (message[0] === this.#opening[0]) return status === 'I' ? null : this.#client.loseToOthers()
    if (status === 'I') this.#endedEarly = true
    if (this.#endedEarly) return closed()
    const missingOf = message.includes(this.#commit) ? this.#later.missingFrom(message) : null
    return missingOf === null ? null : notWritten(missingOf, this.#lastError)
  }

  sending(statements: readonly Outgoing[]): void {
    if (statements.includes(this.#commit)) this.#commitSent = true
    this.#sent = statements
    this.#lastText = statements.at(-1)?.config.text ?? ''
  }

  answered(error: unknown, results: readonly QueryResult[], executed: readonly Executed[]): unknown {
    const reported = error === null ? null : this.#client.explain(error)
    if (reported !== null) {
      this.#firstError ??= reported
      this.#lastError = reported
      if (this.#sent[results.length] === this.#commit) this.#commitRefused = true
      this.#blame(this.#sent[results.length], reported)
    }
    this.#later.noteExecuted(this.#sent.slice(0, results.length))
    // None of its statements goes out before the message that begins it, so the first answer is the answer to that message.
    const opening = this.#begun ? 0 : this.#opening.length
    if (results.length < opening) {
      // If a part of it was executed, the server says that a transaction is open, and the client is destroyed.
      this.#notBegun = { error: reported }
      return reported
    }
    this.#begun = true
    if (this.#stage === 'beginning') this.#stage = 'open'
    const { transactionStatus: status } = this.#client
    // In a failed transaction every statement fails: the success of this one shows that a savepoint has undone the error.
    if (reported === null && status === 'T') this.#firstError = null
    if (!this.#commitSent && (status === 'I' || this.#hasEnded([...results.slice(opening), ...executed])))
      this.#endedEarly = true
    return reported
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

  #blame(failed: Outgoing | undefined, error: unknown): void {
    this.#failedWriteOf = this.#later.ownerOf(failed)
    if (this.#failedWriteOf !== null && failed?.config.name !== undefined)
      this.#doubtPrepared(failed.config.text, error)
  }

  #doubtPrepared(text: string, error: unknown): void {
    if (isOfChangedRows(error)) this.#options.preparedQueries?.forget(text)
    // A value could not be sent: then `pg` closes the statement, and goes on believing that it is prepared.
    if (sqlStateOf(error) === null) this.#client.spoil()
  }
}

/** Commands that leave rows, and nothing else, unless a function that they call does. */
const LEAVES_NOTHING = new Set(['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'MERGE'])

/**
 * What else such a command may leave: a setting, or a table, whose creation from a query is answered like that query. Most that
 * have these words leave nothing, and cost a commit.
 */
const MAY_LEAVE = /set_config|\bcreate\b|\bselect\b[^]*\binto\b/i

/**
 * Whether an error that answers COMMIT shows that nothing was committed, as with PostgreSQL alone. A server that passes COMMIT
 * on to another may only mean that it does not know what became of it.
 */
const isFinalOn = ({ isKnown, overServers }: Spread): boolean => isKnown && !overServers

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

const notWritten = (of: string, cause: unknown): PawlError =>
  new PawlError(
    'PAWL_TRANSACTION_ABORTED',
    `What '${of}' handed to write was not written, and the error was caught and ignored. Let the errors of tx through.`,
    { cause },
  )

const closed = (): PawlError =>
  new PawlError(
    'PAWL_TRANSACTION_CLOSED',
    'A query came after its transaction had ended. Await every query inside the transaction.',
  )
