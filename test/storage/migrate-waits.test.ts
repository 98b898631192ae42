import { migrate, migrationSql } from '@pawl/core'
import type pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
/** A schema of an older version: to bring it up to date, its tables have to be locked. */
let schema: string
/** Somebody whose transaction has used the tables, and is still open. */
let busy: pg.PoolClient

beforeEach(async () => {
  database = await TestDatabase.create()
  schema = `${database.businessSchema}_old`
  const [upToFirst] = migrationSql({ schema }).split(`"${schema}"."migrations" (version) VALUES (2)`)
  const firstOnly = (upToFirst ?? '').slice(0, upToFirst?.lastIndexOf('VALUES (1);')) + 'VALUES (1); COMMIT;'
  await database.admin.query(firstOnly)
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

test('requests that queue behind a waiting migration get through while what it waits for goes on', async () => {
  const migrating = migrate(database.pool({ max: 1 }), { schema })
  let migrated = false
  void migrating.then(() => (migrated = true))
  const request = await database.pool({ max: 1, statement_timeout: 10_000 }).connect()
  for (let round = 0; round < 2; round++) {
    await someoneWaits()
    // Nothing but the lock that the migration waits for is in its way.
    await request.query(`SELECT count(*) FROM ${schema}.idempotency_keys`)
  }
  request.release()
  expect(migrated).toBe(false)

  await busy.query('COMMIT')
  expect(await migrating).toEqual({ applied: 2 })
})

test('it gives up in the end, says who is in its way, and has changed nothing', async () => {
  const pool = database.pool({ max: 1 })
  const [{ pid }] = (await busy.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows as [
    { pid: number },
  ]
  const error = await migrate(pool, { schema, lockWaitMs: 0 }).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: 'PAWL_MIGRATION_BLOCKED' })
  const { message } = error as Error
  expect(message).toContain(`process ${pid} (role '`)
  expect(message).toContain(`application 'nightly report', idle in transaction`)
  expect(message).toContain('query: SELECT pg_backend_pid()')
  expect(await database.rows(`SELECT max(version) AS version FROM ${schema}.migrations`)).toEqual([
    { version: 1 },
  ])
  // And the connection is as good as new.
  expect(pool.idleCount).toBe(1)
  expect((await pool.query('SHOW lock_timeout')).rows).toEqual([{ lock_timeout: '0' }])

  await busy.query('COMMIT')
  expect(await migrate(pool, { schema, lockWaitMs: 0 })).toEqual({ applied: 2 })
})

test('where nothing is missing, it waits for nobody', async () => {
  await busy.query('ROLLBACK')
  await migrate(database.pool(), { schema })
  await busy.query(`BEGIN; LOCK TABLE ${schema}.idempotency_keys IN ACCESS EXCLUSIVE MODE`)
  expect(await migrate(database.pool(), { schema })).toEqual({ applied: 0 })
})
