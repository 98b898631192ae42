import { createOperator, type Operator } from '@pawl/core'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { seedEffect } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'
import { seedAll } from './seeded-conditions.js'

let database: TestDatabase
let operator: Operator
beforeEach(async () => {
  database = await TestDatabase.create()
  operator = createOperator({ pool: database.pool({ max: 1 }), schema: database.schema })
})
afterEach(() => database.drop())

const because = { actor: 'anna@ops-1', reason: 'put right' }

test('reap deletes what has expired, and records one row before and one after', async () => {
  await seedAll(database)
  await seedEffect(database, { at: new Date('2020-01-01') })
  const counts = { deleted: 1, held: 0, effectsDeleted: 1, usageDeleted: 0, duplicatesDeleted: 0 }
  expect(await operator.reap(because)).toEqual(counts)
  expect((await operator.list({ status: 'finished' })).map(({ key }) => key)).toEqual(['done'])
  expect(await operator.list()).toHaveLength(7)
  const rows = await database.rows(
    'SELECT action, actor, reason, key_id, detail FROM pawl.interventions ORDER BY created_at',
  )
  const note = { ...because, action: 'reap', key_id: null }
  expect(rows).toMatchObject([
    { ...note, detail: { counts: null } },
    { ...note, detail: { counts } },
  ])
})

test('a reap that fails midway still has its row, without counts', async () => {
  await seedAll(database)
  await database.rows('ALTER TABLE pawl.effects RENAME TO hidden')
  await expect(operator.reap(because)).rejects.toMatchObject({ code: 'PAWL_NOT_MIGRATED' })
  await database.rows('ALTER TABLE pawl.hidden RENAME TO effects')
  expect((await operator.list({ status: 'finished' })).map(({ key }) => key)).toEqual(['done'])
  const rows = await database.rows('SELECT action, actor, reason, detail FROM pawl.interventions')
  expect(rows).toMatchObject([{ ...because, action: 'reap', detail: { counts: null } }])
})

test('reap keeps effects for as long as effectRetentionMs says', async () => {
  await seedEffect(database, { at: new Date('2020-01-01') })
  const century = 100 * 365 * 24 * 3_600_000
  expect(await operator.reap(because, { effectRetentionMs: century })).toMatchObject({ effectsDeleted: 0 })
  await expect(operator.reap(because, { effectRetention: 1 } as never)).rejects.toThrow(/'effectRetention'/)
})
