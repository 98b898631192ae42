import { migrate, type MigrateOptions, type Protection } from '@pawl/core'
import { type DevPostgres, startPostgres } from '@pawl/dev-postgres'
import pg from 'pg'
import { type Commit, KIT, type Row } from '../history.js'
import { KIT_LOCK_TIMEOUT_MS, KIT_POOL_SIZE } from '../limits.js'
import { createAudit, startAudit, TEXT_SETTINGS } from './audit.js'
import {
  actorGone,
  applicationName,
  type Backend,
  readBackends,
  readTableWait,
  terminateActor,
  terminateBusy,
} from './backends.js'
import { connectionOf, withSearchPath, withSettings } from './connection.js'
import { copyTables } from './copy-tables.js'
import { readKeyRow } from './key-row.js'
import { type KitSchemas, newKitSchemas } from './kit-schemas.js'
import { loseCommits } from './lose-commits.js'
import { OwnerLock } from './owner-lock.js'
import { changeServer, expireLease, type Passed, passTime } from './pass-time.js'
import { type Prepare, prepareTables } from './prepare-tables.js'
import { readCommits, setMark } from './read-history.js'
import { type Exposed, SealedRows } from './sealed-rows.js'
import { createSchemas, dropLeftovers, dropSchemas } from './schemas.js'
import { spreadSequences } from './spread-sequences.js'
import { readServer, type Server } from './server.js'

export type { Prepare, PrepareContext } from './prepare-tables.js'

/** What `migrate` is told about how to store the framework's tables. */
export type KitLayout = Pick<MigrateOptions, 'layout' | 'partitions'>

export interface KitDatabaseOptions {
  /**
   * The application's pool. The kit only reads its options: it opens connections of its own, as the same user, and leaves this
   * pool alone. Its `onConnect` runs for the kit's connections too; listeners of the pool do not. Null stands for a PostgreSQL of
   * the kit's own, which is gone when the kit is closed or its process ends.
   */
  readonly pool: pg.Pool | null
  /**
   * Creates and fills the business tables in the kit's own schema. A table that it does not create is the one that the pool's
   * search path shows, if there is one: the pipeline would write to that, and the kit would see no change of it.
   *
   * With null, the tables that the pool's search path shows are copied, with their rows, defaults, sequences, checks, indexes, and
   * the foreign keys among them and to the framework's keys. A partitioned table is copied as one table. Triggers, rules,
   * policies, rights, functions, views, and foreign keys to tables of other schemas are not copied; a view still shows the
   * application's own tables. If the pipeline needs those, create them in `prepare`.
   */
  readonly prepare: Prepare | null
  /** How the framework's tables are stored. Default: plain. */
  readonly layout?: KitLayout
  /** What engines on this database protect values with. Default: nothing, which leaves them as they are. */
  readonly protection?: Protection | null
}

/** The kit's own connections do not have the application's time-outs. */
const OWN_POOL: pg.PoolConfig = {
  max: KIT_POOL_SIZE,
  allowExitOnIdle: true,
  statement_timeout: undefined,
  lock_timeout: undefined,
  idle_in_transaction_session_timeout: undefined,
  query_timeout: undefined,
}

/** READ COMMITTED, because under SERIALIZABLE, reading the history could make actors fail. */
const OWN_SETTINGS: Readonly<Record<string, string>> = {
  ...TEXT_SETTINGS,
  default_transaction_isolation: 'read committed',
  statement_timeout: '0',
  lock_timeout: String(KIT_LOCK_TIMEOUT_MS),
  idle_in_transaction_session_timeout: '0',
}

/**
 * The kit's part of a database: one schema for the business tables, one for the framework's, and one for what the audit writes.
 * It leaves nothing behind.
 */
export class KitDatabase {
  readonly #schemas: KitSchemas
  /** How to connect as the application does, with the kit's search path. */
  readonly #connection: pg.PoolConfig
  readonly #server: Server
  readonly #lock: OwnerLock
  readonly #embedded: DevPostgres | null
  readonly #protection: Protection | null
  /** The kit's own connections, for reading and changing what actors do not. */
  readonly admin: pg.Pool
  #closed: Promise<void> | null = null

  private constructor(
    schemas: KitSchemas,
    connection: pg.PoolConfig,
    server: Server,
    lock: OwnerLock,
    embedded: DevPostgres | null,
    protection: Protection | null,
  ) {
    this.#schemas = schemas
    this.#connection = connection
    this.#server = server
    this.#lock = lock
    this.#embedded = embedded
    this.#protection = protection
    this.admin = new pg.Pool(withSettings(this.poolConfig(KIT, OWN_POOL), OWN_SETTINGS))
    // The pool does not listen on clients that are in use, and a fault may end a connection that another one holds.
    this.admin.on('connect', (client) => client.on('error', () => {}))
    // A connection may end while nobody uses it, for example because it was terminated.
    this.admin.on('error', () => {})
  }

  /** Creates the schemas and everything in them. First drops what was left by kits whose processes were killed. */
  static async open(options: KitDatabaseOptions): Promise<KitDatabase> {
    const embedded = options.pool === null ? await startPostgres() : null
    try {
      return await KitDatabase.#openOn(options, embedded)
    } catch (error) {
      await embedded?.stop()
      throw error
    }
  }

  static async #openOn(
    { pool, prepare, layout = {}, protection = null }: KitDatabaseOptions,
    embedded: DevPostgres | null,
  ): Promise<KitDatabase> {
    const schemas = newKitSchemas()
    const own = pool === null ? { connectionString: embedded?.url } : connectionOf(pool)
    const server = await readServer(own)
    const connection = withSearchPath(own, joinPaths(schemas.business, server.searchPath))
    const lock = await OwnerLock.take(own, schemas.id)
    const database = new KitDatabase(schemas, connection, server, lock, embedded, protection)
    try {
      await database.#createTables(prepare, layout)
    } catch (error) {
      // The caller has to know what went wrong first.
      await database.close().catch(() => {})
      throw error
    }
    return database
  }

  async #createTables(prepare: Prepare | null, layout: KitLayout): Promise<void> {
    const { admin } = this
    await dropLeftovers(admin)
    await createSchemas(admin, this.#schemas, this.#server)
    await migrate(admin, { schema: this.#schemas.pawl, ...layout })
    if (prepare === null) await copyTables(admin, this.#schemas, this.#server.searchPath)
    else await prepareTables(this.poolConfig('prepare'), this.#schemas, prepare)
    await createAudit(admin, this.#schemas)
    await startAudit(admin, this.#schemas)
  }

  /** Part of every name that the kit creates: `crash_` and 16 hexadecimal digits. Application names are `<id>/<actor>`. */
  get id(): string {
    return this.#schemas.id
  }

  /** The schema of the business tables. */
  get schema(): string {
    return this.#schemas.business
  }

  /** The schema of the framework's tables. */
  get pawlSchema(): string {
    return this.#schemas.pawl
  }

  /**
   * Returns the options for an actor's pool: the application's own, with the kit's schema in front of its search path, and the
   * actor's name in `application_name`.
   */
  poolConfig(actor: string, more: pg.PoolConfig = {}): pg.PoolConfig {
    return { ...this.#connection, application_name: applicationName(this.id, actor), ...more }
  }

  /** Makes the sequences of the business tables begin apart from each other. */
  spreadSequences(): Promise<void> {
    return spreadSequences(this.admin, this.#schemas)
  }

  /** Sets a mark in the history: what is committed later belongs to the next case. */
  mark(): Promise<number> {
    return setMark(this.admin, this.#schemas)
  }

  /**
   * Returns all commits after the mark. Those that wrote a key's row are in their true order, which follows from the row's lock.
   * Of the others, only the time when they began to write is known.
   */
  async commitsSince(mark: number): Promise<Commit[]> {
    return (await this.writtenSince(mark)).commits
  }

  /** Returns the same, and what was found out about sealed values: nothing where nothing is sealed. */
  async writtenSince(mark: number): Promise<{ readonly commits: Commit[]; readonly exposed: Exposed }> {
    const sealed = new SealedRows(this.#protection)
    const commits = sealed.openCommits(await readCommits(this.admin, this.#schemas, mark))
    return { commits, exposed: sealed.exposed }
  }

  /** Returns the key's row as the history would have it; null if there is none. */
  async keyRow(scope: string, key: string): Promise<Row | null> {
    const row = await readKeyRow(this.admin, this.#schemas, scope, key)
    return new SealedRows(this.#protection).openKey(row)
  }

  /**
   * Lets time pass for one key, by the database's clock and without waiting: moves every time in its row into the past, including
   * those of its trail and its intent. A negative number takes time back.
   */
  passTime(scope: string, key: string, ms: number): Promise<Passed> {
    return passTime(this.admin, this.#schemas, scope, key, ms)
  }

  /**
   * Lets another server take over, whose clock is ahead by so much, or behind: the key's row was then written by another clock, and
   * by another server, than everything that follows.
   */
  changeServer(scope: string, key: string, aheadMs: number): Promise<Passed> {
    return changeServer(this.admin, this.#schemas, scope, key, aheadMs)
  }

  /** Ends the lease and the back-off now. Nothing else changes. */
  expireLease(scope: string, key: string): Promise<Passed> {
    return expireLease(this.admin, this.#schemas, scope, key)
  }

  /**
   * Takes back everything that was committed since the mark, as an asynchronous failover does that loses the last commits.
   * Afterwards the history contains neither them nor this. Sequences go on from where they are, as after a failover. Actors in the
   * middle of a transaction have to be ended first.
   */
  loseCommitsSince(mark: number): Promise<void> {
    return loseCommits(this.admin, this.#schemas, { mark, transactions: null })
  }

  /** Does the same for some transactions since the mark, as `commitsSince` names them. They have to be the last ones. */
  loseTransactions(mark: number, transactions: readonly string[]): Promise<void> {
    return loseCommits(this.admin, this.#schemas, { mark, transactions })
  }

  /** Returns the connections of one actor, or of all, as the server sees them. The kit's own are not among them. */
  backends(actor?: string): Promise<Backend[]> {
    return readBackends(this.admin, this.id, actor ?? null)
  }

  /** Returns how long a statement of the actor has waited for the whole table of keys, by the server's clock; 0 if none waits. */
  tableWaitMs(actor: string): Promise<number> {
    return readTableWait(this.admin, this.id, actor, `${this.pawlSchema}.idempotency_keys`)
  }

  /** Ends the connections of an actor. Resolves to their number when they are gone. */
  terminate(actor: string): Promise<number> {
    return terminateActor(this.admin, this.id, actor)
  }

  /** Resolves when no connection of the actor is left on the server. */
  backendsGone(actor: string): Promise<void> {
    return actorGone(this.admin, this.id, actor)
  }

  /**
   * Drops the schemas, ends the kit's own connections and those of actors that are in the middle of something, and stops the kit's
   * own server. Calling it again does nothing.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    try {
      // A server of its own takes the schemas with it.
      if (this.#embedded === null) await this.#leaveNothing()
    } finally {
      await this.#endAdmin()
      await this.#lock.release()
      await this.#embedded?.stop()
    }
  }

  async #leaveNothing(): Promise<void> {
    const client = await this.admin.connect()
    try {
      // Dropping would wait for actors that are in the middle of a transaction.
      await terminateBusy(client, this.id)
      await dropSchemas(client, this.#schemas)
    } finally {
      client.release()
    }
  }

  async #endAdmin(): Promise<void> {
    const { totalCount, idleCount } = this.admin
    const ended = this.admin.end()
    // Ending would wait for a client that was never given back.
    if (totalCount === idleCount) await ended
    else ended.catch(() => {})
  }
}

function joinPaths(schema: string, searchPath: string): string {
  return searchPath === '' ? schema : `${schema}, ${searchPath}`
}
