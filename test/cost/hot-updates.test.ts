import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { atMostOnceRideOf } from '../support/guarded-rides.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

// Each test has its own database, where only the backend under test writes keys, so that only that one has to report.
let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.createNew()
  await createRideTables(database)
})
afterEach(() => database.drop())

/** The updates of the keys' table in the statistics, once the pool's only backend has reported them. */
async function updatesBy(pool: pg.Pool): Promise<{ all: number; hot: number } | undefined> {
  await pool.query('SELECT pg_stat_force_next_flush()')
  const [counted] = await database.rows<{ all: number; hot: number }>(
    // Of its partitions, where it has some.
    `SELECT sum(n_tup_upd)::int AS all, sum(n_tup_hot_upd)::int AS hot FROM pg_stat_all_tables
      WHERE schemaname = $1 AND relname ~ '^idempotency_keys(_\\d+)?$'`,
    [database.schema],
  )
  return counted
}

async function executeUntilFinished(trial: RideTrial, pool: pg.Pool): Promise<void> {
  const engine = createEngine(trial.options(pool))
  while ((await trial.row())?.status !== 'finished') await trial.execute(engine)
  await engine.close()
}

// The last update is not HOT, since it moves the row from the index of running keys to that of finished ones.
describe('what a holder writes before it finishes is a HOT update, which changes no index:', () => {
  test('both advances of a ride', async () => {
    const pool = database.pool({ max: 1 })
    await executeUntilFinished(new RideTrial(database), pool)
    expect(await updatesBy(pool)).toEqual({ all: 3, hot: 2 })
  })

  test('a give-back and a take-over', async () => {
    const pool = database.pool({ max: 1 })
    const trial = new RideTrial(database)
    await trial.provider.willMeet('refuse_500')
    await executeUntilFinished(trial, pool)
    expect(await updatesBy(pool)).toEqual({ all: 5, hot: 4 })
  })

  test('the declaration of a call', async () => {
    const pool = database.pool({ max: 1 })
    await executeUntilFinished(new RideTrial(database, atMostOnceRideOf), pool)
    expect(await updatesBy(pool)).toEqual({ all: 4, hot: 3 })
  })
})
