import type pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import { migrateFromOlder, migrateToOlder } from './made-up-migrations.js'

let database: TestDatabase
/** A schema of an older version, whose tables have to be locked to bring it up to date. */
let schema: string
/** A session whose transaction has used the tables, and is still open. */
let busy: pg.PoolClient

beforeEach(async () => {
  database = await TestDatabase.create()
  schema = `${database.businessSchema}_old`
  await migrateToOlder(database.admin, { schema })
  busy = await database.pool({ max: 1, application_name: 'nightly report' }).connect()
  await busy.query('BEGIN')
  await busy.query(`SELECT count(*) FROM ${schema}.idempotency_keys /* the report */`)
})
afterEach(async () => {
  busy.release(true)
  await database.admin.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
  await database.drop()
})

/** Resolves once somebody waits for a table of the schema. */
async function someoneWaits(): Promise<void> {
  const sql = `SELECT count(*)::int AS waiting FROM pg_locks, pg_sleep(0.005)
                WHERE NOT granted AND relation IN (SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace($1))`
  while ((await database.rows<{ waiting: number }>(sql, [schema]))[0]?.waiting === 0);
}

test('requests that queue behind a waiting migration get through while it still waits', async () => {
  const migrating = migrateFromOlder(database.pool({ max: 1 }), { schema })
  let migrated = false
  void migrating.then(() => (migrated = true))
  const request = await database.pool({ max: 1, statement_timeout: 10_000 }).connect()
  for (let round = 0; round < 2; round++) {
    await someoneWaits()
    // Nothing is in its way but the lock that the migration waits for.
    await request.query(`SELECT count(*) FROM ${schema}.idempotency_keys`)
  }
  request.release()
  expect(migrated).toBe(false)

  await busy.query('COMMIT')
  expect(await migrating).toBe(1)
})

test('a migration gives up in the end, says who is in its way, and has changed nothing', async () => {
  const pool = database.pool({ max: 1 })
  const [{ pid }] = (await busy.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows as [
    { pid: number },
  ]
  const error = await migrateFromOlder(pool, { schema, lockWaitMs: 0 }).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: 'PAWL_MIGRATION_BLOCKED' })
  const { message } = error as Error
  expect(message).toContain(`process ${pid} (role '`)
  expect(message).toContain(`application 'nightly report', idle in transaction`)
  expect(message).toContain('query: SELECT pg_backend_pid()')
  expect(await database.rows(`SELECT max(version) AS version FROM ${schema}.migrations`)).toEqual([
    { version: 1 },
  ])
  // The connection is as good as new, too.
  expect(pool.idleCount).toBe(1)
  expect((await pool.query('SHOW lock_timeout')).rows).toEqual([{ lock_timeout: '0' }])

  await busy.query('COMMIT')
  expect(await migrateFromOlder(pool, { schema, lockWaitMs: 0 })).toBe(1)
})

test('a migration with nothing to do waits for nobody', async () => {
  await busy.query('ROLLBACK')
  await migrateFromOlder(database.pool(), { schema })
  await busy.query(`BEGIN; LOCK TABLE ${schema}.idempotency_keys IN ACCESS EXCLUSIVE MODE`)
  expect(await migrateFromOlder(database.pool(), { schema })).toBe(0)
})
