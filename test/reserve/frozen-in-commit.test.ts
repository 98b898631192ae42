import { afterAll, describe, expect, test } from 'vitest'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables } from '../support/rides.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'

const DUPLICATES = 50

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

/** Sends duplicates, and one request under another key among them, on a pool that two waiting ones would drain. */
async function sendDuplicates(trial: RideTrial) {
  const pool = database.pool({ max: 2 })
  const engine = createEngine(trial.options(pool))
  const duplicates = Array.from({ length: DUPLICATES }, () => trial.execute(engine))
  const bystander = await engine.execute(trial.pipeline, {
    scope: `bystander-${trial.scope}`,
    key: trial.key,
    input: { amount: 300 },
  })
  const outcomes = await Promise.all(duplicates)
  expect(pool.idleCount).toBe(pool.totalCount)
  await engine.close()
  return { bystander, outcomes }
}

/** Where UPDATE and COMMIT travel together, a process cannot freeze between them. */
const ONE_BY_ONE = { pipelining: false }

// The holder has its row locked all the while: it goes on only after every duplicate has its answer.
describe('a holder frozen between UPDATE and COMMIT keeps neither duplicates waiting nor others out', () => {
  test.each(['ride_created/advance_key', 'charge_created/advance_key', 'finished/finish_key'])(
    '%s',
    async (step) => {
      const trial = new RideTrial(database)
      const options = trial.options(database.pool(), ONE_BY_ONE)
      const { engine, stops } = engineWithStops(options, `${step}#1:before`, `${step}#1:after`)
      const [beforeUpdate, afterUpdate] = stops
      const holder = trial.execute(engine)
      await beforeUpdate.reached
      // Duplicates are to find a lease that has run out, and to try to take the key over.
      await database.expireLeases()
      beforeUpdate.go()
      await afterUpdate.reached
      const { bystander, outcomes } = await sendDuplicates(trial)
      expect(new Set(outcomes.map(({ type }) => type))).toEqual(new Set(['in_flight']))
      expect(bystander.type).toBe('completed')
      afterUpdate.go()
      const finished = await holder
      if (finished.type !== 'completed') throw finished
      expect((await trial.row())?.fence).toBe('1')
      expect((await trial.rides()).length).toBe(1)
      expect(await engine.inspect(trial.scope, trial.key)).toMatchObject({ status: 'finished' })
      await engine.close()
    },
  )

  test('also while its lease is live', async () => {
    const trial = new RideTrial(database)
    const { engine, stops } = engineWithStops(
      trial.options(database.pool(), ONE_BY_ONE),
      'ride_created/advance_key#1:after',
    )
    const [afterUpdate] = stops
    const holder = trial.execute(engine)
    await afterUpdate.reached
    const { bystander, outcomes } = await sendDuplicates(trial)
    expect(new Set(outcomes.map(({ type }) => type))).toEqual(new Set(['in_flight']))
    expect(bystander.type).toBe('completed')
    afterUpdate.go()
    expect((await holder).type).toBe('completed')
    await engine.close()
  })
})

test('a duplicate waits no longer than the lock time-out for an INSERT that does not commit', async () => {
  const trial = new RideTrial(database)
  const engine = createEngine(trial.options(database.pool(), { defaults: { lockTimeoutMs: 50 } }))
  const rival = await database.admin.connect()
  await rival.query('BEGIN')
  await rival.query(
    `INSERT INTO ${database.schema}.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint,
                                                      fingerprint_version, input, holder)
     VALUES ($1, $2, 'create-ride', 1, '0123456789abcdef', sha256(''), 1, '{}', gen_random_uuid())`,
    [trial.scope, trial.key],
  )
  expect(await trial.execute(engine)).toMatchObject({ type: 'in_flight', fencedOff: false })
  await rival.query('ROLLBACK')
  rival.release()
  expect((await trial.execute(engine)).type).toBe('completed')
  await engine.close()
})
