import { createOperator } from '@pawl/core'
import type pg from 'pg'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { because, dump } from './erased-scope.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

test('a request that ends while its scope is being erased is kept whole, and goes whole the next time', async () => {
  const trial = new RideTrial(database)
  const { scope } = trial
  const engine = createEngine(trial.options())
  onTestFinished(() => engine.close())
  // Whoever takes the only connection between two batches of an erasure holds it up.
  const pool = database.pool({ max: 1 })
  const operator = createOperator({ pool, schema: database.schema })
  const erase = () => operator.erase({ scope, ...because, recentEffects: true, undeliveredJobs: true })
  await operator.status()
  const heldUp = new Promise<pg.PoolClient>((resolve) => {
    pool.once('release', () => resolve(pool.connect()))
  })
  const erasure = erase()
  const connection = await heldUp
  expect(await trial.execute(engine)).toMatchObject({ type: 'completed' })
  // It was reserved before the erasure began.
  await database.rows(
    `UPDATE pawl.idempotency_keys SET created_at = created_at - interval '1 hour' WHERE scope = $1`,
    [scope],
  )
  // Its job was delivered at once.
  await database.rows('DELETE FROM pawl.staged_jobs WHERE scope = $1', [scope])
  connection.release()
  const { complete, kept } = await erasure
  expect(complete).toBe(false)
  expect(kept).toMatchObject([{ what: 'key', why: 'locked' }])
  expect(await trial.execute(engine)).toMatchObject({ type: 'replayed' })
  expect(await dump(database)).toContain(scope)
  expect(await erase()).toMatchObject({ complete: true })
  expect(await dump(database)).not.toContain(scope)
})
