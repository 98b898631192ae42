import { randomUUID } from 'node:crypto'
import { respond } from '@pawl/core'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createEngine, createRideTables, pipeline } from '../support/rides.js'
import { expectWholePool } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
})
afterEach(() => database.drop())

// Shows I14.
test('a phase that waits for ever keeps neither its connection nor its request', async () => {
  const name = `hung_${randomUUID().slice(0, 8)}`
  const pool = database.pool({ max: 1, application_name: name })
  let bodies = 0
  const hung = pipeline({ name: 'hung', version: 1, idleTimeoutMs: 100 })
    .local('waited', async ({ tx }) => {
      bodies++
      await tx.insertInto('audit').values({ what: 'never committed' }).execute()
      // It asks a pool of one for a second connection, and gets it only once the first is given back.
      await pool.query('SELECT 1')
      await new Promise<never>(() => {})
    })
    .finish(() => respond(204))
  const engine = createEngine({ pool, pipelines: [hung], schema: database.schema })
  const outcome = await engine.execute(hung, { scope: 's', key: randomUUID(), input: null })
  expect(outcome).toMatchObject({ type: 'retry_later', error: { code: 'PAWL_PHASE_TIMEOUT' } })
  expect(bodies).toBe(1)
  expect(await database.rows('SELECT * FROM audit')).toEqual([])
  await expectWholePool(pool, database, name)
  await engine.close()
})

test('a connection to a server that has become read-only is not given back', async () => {
  const pool = database.pool({ max: 1 })
  const plain = pipeline({ name: 'plain', version: 1 }).finish(() => respond(204))
  const engine = createEngine({ pool, pipelines: [plain], schema: database.schema })
  await pool.query('SET default_transaction_read_only = on')
  const request = { scope: 's', key: randomUUID(), input: null }
  expect(await engine.execute(plain, request)).toMatchObject({
    type: 'unavailable',
    error: { code: '25006' },
  })
  expect(await engine.execute(plain, request)).toMatchObject({ type: 'completed' })
  await engine.close()
})
