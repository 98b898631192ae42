import { createBackground, type ReaperOptions } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { keysOf, limitedEngine, note, requestOf } from '../support/limited-engine.js'
import type { Database } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { NOTHING } from './nothing-reaped.js'

const MINUTE_MS = 60_000
const limits = { newKeys: { max: 10, perMs: MINUTE_MS } }

describe.each([
  ['plain', () => TestDatabase.create()],
  ['partitioned', () => TestDatabase.createPartitioned(3)],
])('with the layout %s', (_layout, create) => {
  let database: TestDatabase
  beforeEach(async () => {
    database = await create()
  })
  afterEach(() => database.drop())

  const reaperOf = (options: ReaperOptions = {}, isLimited = true) => {
    const { engine } = limitedEngine(database, { pipelines: [note], ...(isLimited && { limits }) })
    const { reaper } = createBackground({
      engine,
      completer: false,
      relay: [],
      reaper: { pauseMs: 0, ...options },
    })
    if (reaper === null) throw new Error('no reaper')
    return { engine, reaper }
  }
  const scopes = async () =>
    (await database.rows<{ scope: string }>('SELECT scope FROM pawl.scope_usage ORDER BY scope')).map(
      ({ scope }) => scope,
    )
  /** As if it had last been used so long ago. */
  const age = (ms: number, where = 'true') =>
    database.rows(
      `UPDATE pawl.scope_usage SET refilled_at = refilled_at - $1 * interval '1 ms' WHERE ${where}`,
      [ms],
    )

  test('a bucket is deleted once it must be full, and not before', async () => {
    const { engine, reaper } = reaperOf()
    for (const scope of ['idle', 'busy']) await engine.execute(note, requestOf('k', scope))
    expect(await reaper.runOnce()).toEqual(NOTHING)
    await age(MINUTE_MS / 2)
    expect(await reaper.runOnce()).toEqual(NOTHING)
    await age(MINUTE_MS, `scope = 'idle'`)
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, usageDeleted: 1 })
    expect(await scopes()).toEqual(['busy'])
    // A scope that comes back has as much as one that was never here.
    for (const key of keysOf(10, 'again'))
      expect(await engine.execute(note, requestOf(key, 'idle'))).toMatchObject({ type: 'completed' })
    expect(await engine.execute(note, requestOf('more', 'idle'))).toMatchObject({ type: 'limited' })
  })

  test('page by page, and so many pages in a round; the next one goes on from there', async () => {
    await database.rows(
      `INSERT INTO pawl.scope_usage (scope, kind, pipeline, tokens, refilled_at, per_ms)
       SELECT 's' || n / 3, 'new_keys', 'p' || n % 3, 1, clock_timestamp() - CASE WHEN n % 7 = 0 THEN interval '1 s' ELSE interval '1 day' END, ${MINUTE_MS}
         FROM generate_series(0, 209) AS n`,
    )
    const { reaper } = reaperOf({ batchSize: 7 })
    let deleted = 0
    const rounds: number[] = []
    while (deleted < 180) {
      const { usageDeleted } = await reaper.runOnce()
      rounds.push(usageDeleted)
      deleted += usageDeleted
      expect(rounds.length).toBeLessThan(10)
    }
    expect(deleted).toBe(180)
    expect(rounds.length).toBeGreaterThan(1)
    expect(await database.rows(`SELECT 1 FROM pawl.scope_usage`)).toHaveLength(30)
    expect(await reaper.runOnce()).toEqual(NOTHING)
  })

  test('a row that a reservation has locked is left, and is not deleted if it was used meanwhile', async () => {
    const { engine, reaper } = reaperOf()
    await engine.execute(note, requestOf('k'))
    await age(2 * MINUTE_MS)
    const client = await database.admin.connect()
    await client.query('BEGIN')
    await client.query(
      `UPDATE "${database.schema}".scope_usage SET tokens = 3, refilled_at = clock_timestamp()`,
    )
    expect(await reaper.runOnce()).toEqual(NOTHING)
    await client.query('COMMIT')
    client.release()
    expect(await reaper.runOnce()).toEqual(NOTHING)
    expect(await scopes()).toEqual(['s'])
  })

  test('a bucket that was used after it was found full is kept', async () => {
    const engine = createProbedEngine<Database>(
      { pool: database.pool(), pipelines: [note], schema: database.schema, limits },
      async ({ step, when }) => {
        if (step === 'reap_buckets' && when === 'before')
          await database.rows('UPDATE pawl.scope_usage SET tokens = 3, refilled_at = clock_timestamp()')
      },
    )
    onTestFinished(() => engine.close())
    await engine.execute(note, requestOf('k'))
    await age(2 * MINUTE_MS)
    const { reaper } = createBackground({ engine, completer: false, relay: [] })
    expect(await reaper?.runOnce()).toEqual(NOTHING)
    expect(await scopes()).toEqual(['s'])
  })

  test('without limits, nobody looks at it', async () => {
    const { reaper } = reaperOf({}, false)
    await database.rows(
      `INSERT INTO pawl.scope_usage (scope, kind, tokens, refilled_at, per_ms) VALUES ('s', 'lookups', 1, '2001-01-01', 1)`,
    )
    expect(await reaper.runOnce()).toEqual(NOTHING)
    expect(await scopes()).toEqual(['s'])
  })
})
