import pg from 'pg'
import { inject } from 'vitest'
import { IS_PARTITIONED } from './layout.js'
import { createSchemas, dropSchemas, giveBack, type Schemas, takeSchemas } from './migrated-schemas.js'

/** A schema for one test's business rows, another for the framework's, and pools that see both. */
export class TestDatabase {
  /** The framework's schema. */
  readonly schema: string
  /** The business tables' schema, which is the search path of every pool. */
  readonly businessSchema: string
  readonly url: string
  /** For inspecting and changing rows, beside the pools under test. */
  readonly admin: pg.Pool
  /** Then a key's id is unique only together with its scope. */
  readonly isPartitioned: boolean
  readonly #schemas: Schemas
  readonly #isUsedAgain: boolean
  readonly #pools: pg.Pool[] = []

  private constructor(url: string, schemas: Schemas, isUsedAgain: boolean, isPartitioned = IS_PARTITIONED) {
    this.url = url
    this.isPartitioned = isPartitioned
    this.businessSchema = schemas.business
    this.schema = schemas.framework
    this.admin = schemas.admin
    this.#schemas = schemas
    this.#isUsedAgain = isUsedAgain
  }

  /** Its tables are empty, and earlier tests may have used them. */
  static async create(): Promise<TestDatabase> {
    return new TestDatabase(inject('databaseUrl'), await takeSchemas(), true)
  }

  /** Its tables are new, and plain whatever the setting of the tests: for what pages show, or rows that refer to a key by its id alone. */
  static async createPlain(): Promise<TestDatabase> {
    const url = inject('databaseUrl')
    return new TestDatabase(url, await createSchemas(url, {}), false, false)
  }

  /** Its tables are new, and divided whatever the setting of the tests. */
  static async createPartitioned(partitions: number): Promise<TestDatabase> {
    const url = inject('databaseUrl')
    return new TestDatabase(url, await createSchemas(url, { layout: 'partitioned', partitions }), false, true)
  }

  /** Its tables are new, for tests of statistics or query plans, or on another server. */
  static async createNew(url: string = inject('databaseUrl')): Promise<TestDatabase> {
    return new TestDatabase(url, await createSchemas(url), false)
  }

  /** A pool whose connections find the business tables without a prefix. `drop` ends it. */
  pool(config: pg.PoolConfig = {}): pg.Pool {
    const options = `-c search_path=${this.businessSchema}`
    const pool = new pg.Pool({ connectionString: this.url, options, max: 10, ...config })
    pool.on('error', () => {})
    this.#pools.push(pool)
    return pool
  }

  async rows<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row[]> {
    return (await this.admin.query<Row>(sql.replaceAll('pawl.', `${this.schema}.`), values)).rows
  }

  /** Makes every live lease of the test's keys run out on the database's clock, without waiting. */
  async expireLeases(): Promise<void> {
    await this.rows(
      `UPDATE pawl.idempotency_keys SET lease_until = statement_timestamp() - interval '1 ms' WHERE lease_until IS NOT NULL`,
    )
  }

  /** Resolves when no connection under this application_name is left on the server. */
  async backendsGone(applicationName: string): Promise<void> {
    const sql = `SELECT count(*)::int AS left FROM pg_stat_activity, pg_sleep(0.005) WHERE application_name = $1`
    while ((await this.rows<{ left: number }>(sql, [applicationName]))[0]?.left !== 0);
  }

  /** Nobody may use the database after this. */
  async drop(): Promise<void> {
    if (this.#isUsedAgain) giveBack(this.#schemas)
    else await dropSchemas(this.#schemas)
    await Promise.all(this.#pools.filter((pool) => !pool.ended).map((pool) => pool.end()))
  }
}
