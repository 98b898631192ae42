import { type Engine, type Limits, type Outcome, respond, retryLater } from '@pawl/core'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { contextOf } from '../../packages/core/src/engine/engine-context.js'
import { countOf, HOUR_MS, keysOf, limitedEngine, requestOf } from '../support/limited-engine.js'
import { type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

// The statements that an engine sends where tables are distributed, on one server: `test/citus` sends them to several.

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.create()
})
afterEach(() => database.drop())

const perHour = (max: number) => ({ newKeys: { max, perMs: HOUR_MS } })
const free = pipeline<null>({ name: 'free', version: 1 }).finish(() => respond(204))
const rare = pipeline<null>({ name: 'rare', version: 1, limits: perHour(2) }).finish(() => respond(204))
const few = pipeline<null>({ name: 'few', version: 1, limits: { unfinished: 1 } }).finish(() => retryLater())

/** Believes that its tables are distributed. */
async function engineWith(limits: Limits): Promise<Engine<Database>> {
  const { engine } = limitedEngine(database, { pipelines: [free, rare, few], limits })
  // By then it has learnt where they are.
  await engine.inspect('nobody', 'k')
  contextOf(engine, 'test').tables.spread.learn('over_servers')
  return engine
}

const tokens = () =>
  database.rows(`SELECT pipeline, floor(tokens)::int AS left FROM pawl.scope_usage ORDER BY pipeline`)

test('new keys are limited exactly, of the scope and of the pipeline, and what was taken for nothing is returned', async () => {
  const engine = await engineWith(perHour(5))
  const outcomes: Outcome[] = await Promise.all(keysOf(20).map((key) => engine.execute(rare, requestOf(key))))
  expect(countOf(outcomes, 'completed')).toBe(2)
  expect(countOf(outcomes, 'limited')).toBe(18)
  expect(await tokens()).toEqual([
    { pipeline: '', left: 3 },
    { pipeline: 'rare', left: 0 },
  ])
  const more = await Promise.all(keysOf(20, 'more').map((key) => engine.execute(free, requestOf(key))))
  expect(countOf(more, 'completed')).toBe(3)
  expect(await engine.execute(free, requestOf('last'))).toMatchObject({
    limit: 'new_keys',
    of: 'scope',
    max: 5,
  })
  const same = await engineWith(perHour(5))
  await Promise.all(Array.from({ length: 10 }, () => same.execute(free, requestOf('same', 'other'))))
  expect(
    await database.rows(`SELECT floor(tokens)::int AS left FROM pawl.scope_usage WHERE scope = 'other'`),
  ).toEqual([{ left: 4 }])
})

test('unfinished keys count, and a retry of one is not refused', async () => {
  const engine = await engineWith({ unfinished: 3 })
  expect((await engine.execute(few, requestOf('a'))).type).toBe('retry_later')
  expect(await engine.execute(few, requestOf('b'))).toMatchObject({
    limit: 'unfinished',
    of: 'pipeline',
    max: 1,
  })
  expect((await engine.execute(few, requestOf('a'))).type).toBe('retry_later')
})

test('stored bytes are refused as an option, and nothing is reserved', async () => {
  const engine = await engineWith({ storedBytes: 1_000_000 })
  await expect(engine.execute(free, requestOf('k'))).rejects.toMatchObject({
    code: 'PAWL_INVALID_OPTION',
    message: expect.stringContaining('storedBytes') as string,
  })
  expect(await database.rows('SELECT 1 FROM pawl.idempotency_keys')).toEqual([])
})
