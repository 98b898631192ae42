import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  Kysely,
  type KyselyPlugin,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  Transaction,
  type TransactionSettings,
} from 'kysely'
import type { QueryResult as PgResult } from 'pg'
import { PawlError } from '../errors.js'
import type { Session } from './session.js'
import type { SessionTransaction } from './session-transaction.js'
import type { SessionPool } from './session-pool.js'

/** A session as Kysely sees it. */
class SessionConnection implements DatabaseConnection {
  readonly session: Session
  /** Once there has been one, queries go to it, even after its end, which it then reports to them. */
  transaction: SessionTransaction | null = null

  constructor(session: Session) {
    this.session = session
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    return toKyselyResult<R>(await (this.transaction ?? this.session).query(sql, parameters))
  }

  streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new PawlError(
      'PAWL_STREAM_UNSUPPORTED',
      'This Kysely does not stream. Page through the rows, or use a Kysely of your own.',
    )
  }
}

/** Stock Kysely neither looks at COMMIT's command tag nor destroys a client that is not clean. This driver does both. */
class SessionDriver implements Driver {
  readonly #sessions: SessionPool
  readonly #checkout: () => void

  constructor(sessions: SessionPool, checkout: () => void) {
    this.#sessions = sessions
    this.#checkout = checkout
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    this.#checkout()
    return new SessionConnection(await this.#sessions.acquire('engine.db'))
  }

  async beginTransaction(connection: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    const isolation =
      settings.isolationLevel === undefined ? '' : ` isolation level ${settings.isolationLevel}`
    const access = settings.accessMode === undefined ? '' : ` ${settings.accessMode}`
    const alone = { name: 'query', text: `begin${isolation}${access}` }
    const transaction = sessionOf(connection).begin({ alone, together: [] })
    ;(connection as SessionConnection).transaction = transaction
    await transaction.start()
  }

  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    const transaction = transactionOf(connection)
    const [committed] = await transaction.commit([])
    if (committed?.command !== 'COMMIT') throw abortedTransaction(transaction, 'engine.db')
  }

  async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    await transactionOf(connection).rollBack()
  }

  async releaseConnection(connection: DatabaseConnection): Promise<void> {
    sessionOf(connection).release()
  }

  async destroy(): Promise<void> {}
}

/** `where` names what ran the transaction. */
export function abortedTransaction(transaction: SessionTransaction, where: string): PawlError {
  return new PawlError(
    'PAWL_TRANSACTION_ABORTED',
    `The transaction of ${where} could not commit: a database error in it was caught and ignored. ` +
      'Let the errors of tx through, or put the risky statement behind a savepoint.',
    { cause: transaction.firstError },
  )
}

/** Creates Kysely instances: one on the pool, and one for each phase's transaction. */
export class KyselyFactory {
  readonly #dialect: Dialect
  readonly #plugins: KyselyPlugin[]
  readonly #template: Kysely<never>

  /** `checkout` may refuse a connection by throwing. */
  constructor(sessions: SessionPool, plugins: readonly KyselyPlugin[], checkout: () => void) {
    this.#dialect = {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new SessionDriver(sessions, checkout),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    }
    this.#plugins = [...plugins]
    this.#template = this.onPool()
  }

  onPool<DB>(): Kysely<DB> {
    return new Kysely<DB>({ dialect: this.#dialect, plugins: this.#plugins })
  }

  /** Returns a Kysely transaction on top of a session's transaction, with the connection that ends its use. */
  onTransaction(session: Session, transaction: SessionTransaction, phase: string): PhaseTransaction {
    const connection = new PhaseConnection(session, transaction, phase)
    const tx = new Transaction<never>({
      config: { dialect: this.#dialect, plugins: this.#plugins },
      dialect: this.#dialect,
      driver: NESTED_TRANSACTIONS_REFUSED,
      executor: this.#template.getExecutor().withConnectionProvider({
        provideConnection: (consumer) => consumer(connection),
      }),
    })
    return { tx, connection }
  }
}

export interface PhaseTransaction {
  readonly tx: Transaction<never>
  readonly connection: PhaseConnection
}

/** The connection of one phase. It notices a transaction that the user ended, and queries that come too late. */
class PhaseConnection extends SessionConnection {
  override readonly transaction: SessionTransaction
  readonly #phase: string
  #closed = false
  #refusedEnd = false

  constructor(session: Session, transaction: SessionTransaction, phase: string) {
    super(session)
    this.transaction = transaction
    this.#phase = phase
  }

  /** From here on, queries through `tx` fail. */
  close(): void {
    this.#closed = true
  }

  assertOpen(): void {
    if (!this.#closed) return
    throw new PawlError(
      'PAWL_TRANSACTION_CLOSED',
      `tx, write or stage of phase '${this.#phase}' was used after the phase had returned. Await every query inside it.`,
    )
  }

  /** Thrown when it happens and once more at the end, because user code may have swallowed it. */
  assertNotEnded(): void {
    if (this.#refusedEnd || this.transaction.endedEarly) throw endedByUser(this.#phase)
  }

  override async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    this.assertOpen()
    // If it is seen before it is sent, no harm is done. Otherwise it is noticed afterwards.
    if (ENDS_TRANSACTION.test(query.sql)) {
      this.#refusedEnd = true
      throw endedByUser(this.#phase)
    }
    const result = await super.executeQuery<R>(query)
    if (this.transaction.endedEarly) throw endedByUser(this.#phase)
    return result
  }
}

/** Statements that end a transaction or begin another. ROLLBACK TO, which goes back to a savepoint, is not one of them. */
const ENDS_TRANSACTION =
  /^\s*(?:(?:commit|end|abort|begin)\b|(?:start|prepare)\s+transaction\b|rollback\b(?!\s+(?:(?:work|transaction)\s+)?to\b))/i

const CHANGES = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE'])

function toKyselyResult<R>({ command, rowCount, rows }: PgResult): QueryResult<R> {
  const found = (rows ?? []) as R[]
  return CHANGES.has(command) ? { numAffectedRows: BigInt(rowCount ?? 0), rows: found } : { rows: found }
}

export function endedByUser(phase: string): PawlError {
  return new PawlError(
    'PAWL_TRANSACTION_ENDED',
    `Phase '${phase}' ended its own transaction. Leave COMMIT and ROLLBACK to Pawl.`,
  )
}

const refuseNested = (): never => {
  throw new PawlError('PAWL_TRANSACTION_ENDED', 'tx is a transaction already; it cannot start another.')
}

const NESTED_TRANSACTIONS_REFUSED: Driver = {
  init: async () => {},
  acquireConnection: refuseNested,
  beginTransaction: refuseNested,
  commitTransaction: refuseNested,
  rollbackTransaction: refuseNested,
  releaseConnection: refuseNested,
  destroy: async () => {},
}

function sessionOf(connection: DatabaseConnection): Session {
  return (connection as SessionConnection).session
}

function transactionOf(connection: DatabaseConnection): SessionTransaction {
  const { transaction } = connection as SessionConnection
  if (transaction === null) throw new TypeError('no transaction was begun on this connection')
  return transaction
}
