import { randomUUID } from 'node:crypto'
import { migrate } from '@pawl/core'
import pg from 'pg'
import { inject } from 'vitest'

/** A schema for one test's business rows, another for the framework's, and pools that see both. */
export class TestDatabase {
  /** The framework's schema. */
  readonly schema: string
  /** The business tables' schema; the search path of every pool. */
  readonly businessSchema: string
  readonly url: string
  /** For looking and meddling, beside the pools under test. */
  readonly admin: pg.Pool
  readonly #pools: pg.Pool[] = []

  private constructor(url: string) {
    const name = `t_${randomUUID().replaceAll('-', '').slice(0, 16)}`
    this.url = url
    this.businessSchema = name
    this.schema = `${name}_pawl`
    this.admin = this.pool({ max: 8, application_name: `${name}_admin` })
  }

  static async create(url: string = inject('databaseUrl')): Promise<TestDatabase> {
    const database = new TestDatabase(url)
    await database.admin.query(`CREATE SCHEMA ${database.businessSchema}`)
    await migrate(database.admin, { schema: database.schema })
    return database
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

  /** Makes every live lease of the test's keys run out, by the database's clock and without waiting. */
  async expireLeases(): Promise<void> {
    await this.rows(
      `UPDATE pawl.idempotency_keys SET lease_until = clock_timestamp() - interval '1 ms' WHERE lease_until IS NOT NULL`,
    )
  }

  /** Resolves when no connection under this application_name is left on the server. */
  async backendsGone(applicationName: string): Promise<void> {
    const sql = `SELECT count(*)::int AS left FROM pg_stat_activity, pg_sleep(0.005) WHERE application_name = $1`
    while ((await this.rows<{ left: number }>(sql, [applicationName]))[0]?.left !== 0);
  }

  async drop(): Promise<void> {
    await this.admin.query(`DROP SCHEMA IF EXISTS ${this.schema}, ${this.businessSchema} CASCADE`)
    await Promise.all(this.#pools.filter((pool) => !pool.ended).map((pool) => pool.end()))
  }
}
