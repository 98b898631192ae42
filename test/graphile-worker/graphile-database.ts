import { type Job, Logger, runMigrations, runOnce, type TaskList } from 'graphile-worker'
import type pg from 'pg'
import { createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

/** A test's database with graphile-worker really installed, in a schema of the test's own. */
export class GraphileDatabase {
  readonly database: TestDatabase
  /** graphile-worker's schema, in mixed case, so that whoever forgets to quote it, or renames it, does not find it. */
  readonly schema: string
  /** The same, quoted for SQL. */
  readonly quoted: string
  readonly #pool: pg.Pool

  private constructor(database: TestDatabase) {
    this.database = database
    this.schema = `${database.businessSchema}_myJobs`
    this.quoted = `"${this.schema}"`
    this.#pool = database.pool()
    // graphile-worker warns about a pool without such a listener.
    this.#pool.on('connect', (client) => client.on('error', () => {}))
  }

  static async create(url?: string): Promise<GraphileDatabase> {
    const database = await (url === undefined ? TestDatabase.create() : TestDatabase.createNew(url))
    await createRideTables(database)
    const graphile = new GraphileDatabase(database)
    await runMigrations(graphile.options())
    return graphile
  }

  /** The options of `run` and `runOnce`, without a log. */
  options() {
    return {
      pgPool: this.#pool,
      schema: this.schema,
      logger: new Logger(() => () => {}),
      noHandleSignals: true,
    }
  }

  /** Works until no job is due. */
  async work(taskList: TaskList, concurrency = 1): Promise<void> {
    await runOnce({ ...this.options(), concurrency, taskList })
    await this.writtenDown()
  }

  /** Waits for graphile-worker's last UPDATE, for which it does not wait itself: a job is locked until that has committed. */
  async writtenDown(): Promise<void> {
    const sql = `SELECT count(*)::int AS locked FROM ${this.quoted}._private_jobs, pg_sleep(0.005)
                  WHERE locked_at IS NOT NULL`
    while ((await this.database.rows<{ locked: number }>(sql))[0]?.locked !== 0);
  }

  async addJob(identifier: string, payload: unknown, key: string | null = null): Promise<void> {
    await this.database.rows(
      `SELECT ${this.quoted}.add_job(identifier => $1, payload => $2::json, job_key => $3)`,
      [identifier, JSON.stringify(payload), key],
    )
  }

  /** Every job in graphile-worker's own tables, oldest first. */
  jobs(): Promise<(Job & { queue_name: string | null; wait_ms: number })[]> {
    return this.database.rows(
      `SELECT jobs.*, tasks.identifier AS task_identifier, queues.queue_name,
              (extract(epoch FROM jobs.run_at - jobs.created_at) * 1000)::float8 AS wait_ms
         FROM ${this.quoted}._private_jobs jobs
         JOIN ${this.quoted}._private_tasks tasks ON tasks.id = jobs.task_id
         LEFT JOIN ${this.quoted}._private_job_queues queues ON queues.id = jobs.job_queue_id
        ORDER BY jobs.id`,
    )
  }

  /** Ends the back-off of failed jobs. */
  async makeDue(): Promise<void> {
    await this.database.rows(`UPDATE ${this.quoted}._private_jobs SET run_at = now()`)
  }

  async clear(): Promise<void> {
    await this.database.rows(`DELETE FROM ${this.quoted}._private_jobs`)
  }

  async drop(): Promise<void> {
    await this.database.rows(`DROP SCHEMA IF EXISTS ${this.quoted} CASCADE`)
    await this.database.drop()
  }
}
