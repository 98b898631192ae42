import { createOperator } from '@pawl/core'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables } from '../support/rides.js'
import { seedEffect, seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'
import { because, daysAgo } from './erased-scope.js'

const database = await TestDatabase.create()
await createRideTables(database)
const operator = createOperator({ pool: database.pool(), schema: database.schema })
afterAll(() => database.drop())

// Shows I8.
test('what was undone long ago is kept as long as a later request of that name, so that no provider key comes again', async () => {
  const trial = new RideTrial(database)
  const engine = createEngine(trial.options())
  onTestFinished(() => engine.close())
  const { scope, key } = trial
  const chargeAndUndo = async () => {
    expect(await trial.execute(engine)).toMatchObject({ type: 'completed' })
    expect(await operator.forget({ scope, key }, because, { effectsUndone: true })).toMatchObject({
      type: 'done',
    })
  }
  await chargeAndUndo()
  await database.rows(
    `UPDATE pawl.effects SET created_at = created_at - interval '3 days' WHERE scope = $1`,
    [scope],
  )
  expect(await trial.execute(engine)).toMatchObject({ type: 'completed' })
  await database.rows('DELETE FROM pawl.staged_jobs WHERE scope = $1', [scope])
  const dry = await operator.erase({ scope, ...because, dryRun: true })
  const report = await operator.erase({ scope, ...because })
  expect(dry).toEqual(report)
  expect(report).toMatchObject({ erased: { effects: 0 }, kept: [{ what: 'key', why: 'recent_effect' }] })
  // The second charge is undone as well, and the next request must not be answered with it.
  await operator.forget({ scope, key }, because, { effectsUndone: true })
  const { kept } = await operator.erase({ scope, ...because })
  expect(kept).toMatchObject([
    { what: 'effect', why: 'recent_effect' },
    { what: 'effect', why: 'recent_effect' },
  ])
  expect(await trial.execute(engine)).toMatchObject({ type: 'completed' })
  expect(await trial.provider.ledger()).toHaveLength(3)
})

test('what was undone long ago goes once nothing of that name is left', async () => {
  const scope = 'rider-7'
  for (const key of ['a', 'a', 'b']) await seedEffect(database, { scope, key, at: daysAgo(3) })
  await database.rows('UPDATE pawl.effects SET undone_at = clock_timestamp() WHERE scope = $1', [scope])
  await seedKey(database, { scope, key: 'b', status: 'finished', createdAgo: '2 days' })
  expect(await operator.erase({ scope, ...because, dryRun: true })).toMatchObject({
    complete: true,
    erased: { keys: 1, effects: 3 },
  })
  expect(await operator.erase({ scope, ...because })).toMatchObject({
    complete: true,
    erased: { keys: 1, effects: 3 },
  })
})
