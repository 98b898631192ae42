import { createOperator } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { countedReaper, countOf, insertExpired } from '../support/expired-keys.js'
import { seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'
import { NOTHING } from './nothing-reaped.js'

const HOUR_MS = 3_600_000

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.create()
})
afterEach(() => database.drop())

const insertEffects = (count: number, age: string) =>
  database.rows(
    `INSERT INTO pawl.effects (key_id, scope, key, pipeline, version, fence, phase, effect, provider_key, created_at)
     SELECT gen_random_uuid(), 's', n::text, 'note', 1, 1, 'p', 'e', 'k',
            clock_timestamp() - $2::interval + n * interval '1 ms' FROM generate_series(1, $1::integer) AS n`,
    [count, age],
  )
const effectsLeft = async () => (await database.rows('SELECT FROM pawl.effects')).length

describe('effects', () => {
  test('are deleted in batches after a retention of their own, and not before', async () => {
    await insertEffects(25, '49 hours')
    await insertEffects(7, '47 hours')
    await insertExpired(database, 1)
    const { reaper, sent } = countedReaper(database, { batchSize: 10, effectRetentionMs: 48 * HOUR_MS })
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 1, effectsDeleted: 25 })
    expect(countOf(sent, 'reap_effects')).toBe(3)
    expect(await effectsLeft()).toBe(7)
  })

  test('are kept for 400 days by default, and at least as long as the keys', async () => {
    await insertEffects(1, '401 days')
    await insertEffects(2, '399 days')
    const days500 = { defaults: { retentionMs: 500 * 24 * HOUR_MS } }
    expect(await countedReaper(database, {}, days500).reaper.runOnce()).toEqual(NOTHING)
    expect(await countedReaper(database).reaper.runOnce()).toEqual({ ...NOTHING, effectsDeleted: 1 })
    expect(await effectsLeft()).toBe(2)
  })

  test('are kept as long as their key, which may have been extended: it says what a retry would do again', async () => {
    await insertEffects(3, '49 hours')
    await seedKey(database, { scope: 's', key: '2', status: 'finished', expiresIn: '30 days' })
    const { reaper } = countedReaper(database, { batchSize: 2, effectRetentionMs: 48 * HOUR_MS })
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, effectsDeleted: 2 })
    expect(await database.rows('SELECT key FROM pawl.effects')).toEqual([{ key: '2' }])
    const operator = createOperator({ pool: database.pool(), schema: database.schema })
    const because = { actor: 'anna', reason: 'wrong answer' }
    expect(await operator.forget({ scope: 's', key: '2' }, because)).toMatchObject({ type: 'refused' })
    await database.rows(`UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 s'`)
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 1, effectsDeleted: 1 })
  })
})
