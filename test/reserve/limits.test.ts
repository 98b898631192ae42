import { type EngineOptions, type Outcome, subscribe } from '@pawl/core'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import {
  calls,
  countOf,
  HOUR_MS,
  keysOf as keys,
  limitedEngine,
  note,
  requestOf as request,
  waits,
} from '../support/limited-engine.js'
import { createEngine, createRideTables, type Database } from '../support/rides.js'
import { seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
})
afterEach(() => database.drop())

type Limits = EngineOptions<Database>['limits']

const engineWith = (limits: Limits, options: Partial<EngineOptions<Database>> = {}) =>
  limitedEngine(database, { ...(limits === undefined ? {} : { limits }), ...options })
const tokens = async () =>
  (await database.rows<{ tokens: number }>('SELECT tokens FROM pawl.scope_usage'))[0]?.tokens

test.each([
  ['at once', { newKeys: { max: 5, perMs: HOUR_MS } }, 'all'],
  ['one after the other', { newKeys: { max: 5, perMs: HOUR_MS } }, 'each'],
  ['at once, and few may be unfinished', { newKeys: { max: 5, perMs: HOUR_MS }, unfinished: 100 }, 'all'],
])('of many new keys %s, exactly as many are let through as the bucket holds', async (_how, limits, when) => {
  const { engine } = engineWith(limits)
  const outcomes: Outcome[] = []
  const send = async (key: string) => void outcomes.push(await engine.execute(note, request(key)))
  if (when === 'all') await Promise.all(keys(40).map(send))
  else for (const key of keys(12)) await send(key)
  expect(countOf(outcomes, 'completed')).toBe(5)
  expect(countOf(outcomes, 'limited')).toBe(outcomes.length - 5)
  expect(await database.rows('SELECT 1 FROM pawl.idempotency_keys')).toHaveLength(5)
})

test('says which limit it is, and when there will be room', async () => {
  const { engine } = engineWith({ newKeys: { max: 2, perMs: 60_000 } })
  for (const key of keys(2)) await engine.execute(note, request(key))
  const outcome = await engine.execute(note, request('more'))
  expect(outcome).toMatchObject({ type: 'limited', limit: 'new_keys', max: 2, perMs: 60_000 })
  const { retryAfterMs } = outcome as Extract<Outcome, { type: 'limited' }>
  expect(retryAfterMs).toBeGreaterThan(20_000)
  expect(retryAfterMs).toBeLessThanOrEqual(30_000)
  // So much later, there is room for one more, and not for two.
  await database.rows(`UPDATE pawl.scope_usage SET refilled_at = refilled_at - $1 * interval '1 ms'`, [
    retryAfterMs,
  ])
  expect(await engine.execute(note, request('more'))).toMatchObject({ type: 'completed' })
  expect(await engine.execute(note, request('again'))).toMatchObject({ type: 'limited' })
})

test('replays, duplicates and resumes are never refused, take no token and lock nothing', async () => {
  const { engine, steps } = engineWith({ newKeys: { max: 3, perMs: HOUR_MS }, unfinished: 1 })
  await engine.execute(note, request('done'))
  await engine.execute(waits, request('waiting'))
  const before = await database.rows('SELECT xmin::text, tokens FROM pawl.scope_usage')
  expect(await engine.execute(note, request('new'))).toMatchObject({ type: 'limited', limit: 'unfinished' })
  steps.length = 0
  for (let time = 0; time < 5; time++)
    expect(await engine.execute(note, request('done'))).toMatchObject({ type: 'replayed' })
  expect(steps.slice(0, 2)).toEqual(['insert_key', 'find_key'])
  expect(await engine.execute(waits, request('waiting'))).toMatchObject({ type: 'retry_later' })
  expect(await database.rows('SELECT xmin::text, tokens FROM pawl.scope_usage')).toEqual(before)
})

test('attempts of one new request at the same moment take one token', async () => {
  const { engine } = engineWith({ newKeys: { max: 2, perMs: HOUR_MS } })
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => engine.execute(note, request('same'))))
  expect(countOf(outcomes, 'limited')).toBe(0)
  expect(await tokens()).toBeGreaterThanOrEqual(1)
  expect(await engine.execute(note, request('other'))).toMatchObject({ type: 'completed' })
  expect(await engine.execute(note, request('third'))).toMatchObject({ type: 'limited' })
})

test('unfinished keys count until they end', async () => {
  const { engine } = engineWith({ unfinished: 2 })
  for (const key of keys(2)) await engine.execute(waits, request(key))
  const refused = {
    type: 'limited',
    limit: 'unfinished',
    of: 'scope',
    max: 2,
    perMs: null,
    retryAfterMs: 1_000,
  }
  expect(await engine.execute(note, request('new'))).toEqual(refused)
  await database.rows(
    `UPDATE pawl.idempotency_keys SET status = 'stuck', stuck_reason = 'too_old' WHERE key = 'k0'`,
  )
  expect(await engine.execute(note, request('new'))).toEqual(refused)
  await database.rows(`UPDATE pawl.idempotency_keys SET status = 'finished' WHERE key = 'k0'`)
  expect(await engine.execute(note, request('new'))).toMatchObject({ type: 'completed' })
})

test('the key of a crashed atomic handler does not count: it waits for its client, who may never come', async () => {
  const { engine } = engineWith({ unfinished: 1 })
  await seedKey(database, { scope: 's', key: 'crashed', kind: 'atomic', leaseIn: '-1 s' })
  expect(await engine.execute(note, request('new'))).toMatchObject({ type: 'completed' })
  await database.rows(`UPDATE pawl.idempotency_keys SET lease_until = clock_timestamp() + interval '1 min'
                        WHERE key = 'crashed'`)
  expect(await engine.execute(note, request('newer'))).toMatchObject({ type: 'limited', limit: 'unfinished' })
})

test('the limit of unfinished keys can be overshot by what is reserved at the same moment, and by no more', async () => {
  const { engine } = engineWith({ unfinished: 1 })
  // The statement of the first has counted, and waits for the table to insert into it.
  const holder = await database.pool({ max: 1 }).connect()
  await holder.query('BEGIN')
  await holder.query(`INSERT INTO ${database.schema}.idempotency_keys
      (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder)
    VALUES ('s', 'k0', 'waits', 1, 'x', '', 1, 'null', gen_random_uuid())`)
  // What is not committed is not counted: this one is let through beside it.
  expect(await engine.execute(waits, request('k1'))).toMatchObject({ type: 'retry_later' })
  await holder.query('COMMIT')
  holder.release()
  expect(await database.rows(`SELECT 1 FROM pawl.idempotency_keys`)).toHaveLength(2)
  // Everything from now on is refused.
  const outcomes = await Promise.all(keys(10, 'late').map((key) => engine.execute(waits, request(key))))
  expect(countOf(outcomes, 'limited')).toBe(10)
})

test('no more are let through than are under way at the same moment', async () => {
  const connections = 4
  const { engine } = engineWith({ unfinished: 3 }, { pool: database.pool({ max: connections }) })
  await Promise.all(keys(40).map((key) => engine.execute(waits, request(key))))
  const rows = await database.rows('SELECT 1 FROM pawl.idempotency_keys')
  expect(rows.length).toBeGreaterThanOrEqual(3)
  expect(rows.length).toBeLessThanOrEqual(3 + connections - 1)
})

test('scopes have limits of their own, by a function of the scope, or none', async () => {
  const { engine } = engineWith((scope) =>
    scope === 'free' ? { newKeys: { max: 1, perMs: HOUR_MS } } : scope === 'paid' ? { unfinished: 10 } : null,
  )
  for (const scope of ['free', 'paid', 'ours']) {
    const outcomes: Outcome[] = []
    for (const key of keys(3)) outcomes.push(await engine.execute(note, request(key, scope)))
    expect(countOf(outcomes, 'limited')).toBe(scope === 'free' ? 2 : 0)
  }
  expect(await database.rows('SELECT scope FROM pawl.scope_usage')).toEqual([{ scope: 'free' }])
})

test('a function that throws, or returns what no limits are, is wrong use', async () => {
  const cause = new Error('no plan')
  const throwing = engineWith(() => {
    throw cause
  })
  await expect(throwing.engine.execute(note, request('k'))).rejects.toMatchObject({
    code: 'PAWL_INVALID_OPTION',
    cause,
  })
  const wrong = engineWith(() => ({ unfinished: 0 }))
  await expect(wrong.engine.execute(note, request('k'))).rejects.toThrow(
    'what limits returned: unfinished is 0; it takes a whole number of 1 or more',
  )
  expect(await database.rows('SELECT 1 FROM pawl.idempotency_keys')).toEqual([])
})

test.each([
  ['nothing', () => undefined],
  ['a promise, which would limit nothing', () => Promise.resolve({ unfinished: 1 })],
  ['a rejected promise, which would end the process', () => Promise.reject(new Error('no plan'))],
  ['a list', () => []],
  ['a number', () => 5],
  ['an instance of a class', () => new Date()],
  ['a limit that nobody knows', () => ({ keys: 1 })],
  ['half a rate', () => ({ newKeys: { max: 1 } })],
  ['a rate that is none', () => ({ newKeys: null })],
  ['what is not a number', () => ({ unfinished: Number.NaN })],
])('a function that returns %s is wrong use, and nothing is reserved', async (_what, limits) => {
  const { engine } = engineWith(limits as never)
  await expect(engine.execute(note, request('k'))).rejects.toMatchObject({ code: 'PAWL_INVALID_OPTION' })
  await expect(engine.enqueue(note, request('k'))).rejects.toMatchObject({ code: 'PAWL_INVALID_OPTION' })
  expect(await database.rows('SELECT 1 FROM pawl.idempotency_keys')).toEqual([])
})

test('a plan that changes holds from the next request on, and a bucket that was larger is cut', async () => {
  let max = 10
  const { engine } = engineWith(() => ({ newKeys: { max, perMs: HOUR_MS } }))
  expect(await engine.execute(note, request('k0'))).toMatchObject({ type: 'completed' })
  max = 2
  const outcomes: Outcome[] = []
  for (const key of keys(5, 'small')) outcomes.push(await engine.execute(note, request(key)))
  expect(countOf(outcomes, 'completed')).toBe(2)
  max = 1_000
  // A larger bucket is not full at once: it fills at its own rate.
  expect(await engine.execute(note, request('large'))).toMatchObject({ type: 'limited', max: 1_000 })
})

test('what is enqueued is limited as well, and so is an effect of the past', async () => {
  const { engine } = engineWith({ newKeys: { max: 1, perMs: HOUR_MS } })
  expect(await engine.enqueue(note, request('k0'))).toMatchObject({ type: 'enqueued', fresh: true })
  expect(await engine.enqueue(note, request('k1'))).toMatchObject({ type: 'limited' })
  expect(await engine.enqueue(note, request('k0'))).toMatchObject({ type: 'enqueued', fresh: false })
  await database.rows(
    `INSERT INTO pawl.effects (key_id, fence, version, scope, key, pipeline, phase, effect, provider_key)
     VALUES (gen_random_uuid(), 1, 1, 's', 'spent', 'note', 'p', 'p', 'p')`,
  )
  expect(await engine.execute(note, request('spent'))).toMatchObject({ type: 'expired' })
})

test('takes one statement more than without limits only where a call begins, to wait for the disk', async () => {
  const { engine, steps } = engineWith({ newKeys: { max: 100, perMs: HOUR_MS }, unfinished: 100 })
  await engine.execute(note, request('local'))
  expect(steps).toEqual(['insert_key'])
  steps.length = 0
  await engine.execute(calls, request('foreign'))
  expect(steps).toEqual(['insert_key', 'write_out'])
})

test('without limits there is no row of usage', async () => {
  const engine = createEngine({ pool: database.pool(), pipelines: [note], schema: database.schema })
  await engine.execute(note, request('k'))
  await engine.close()
  expect(await database.rows('SELECT 1 FROM pawl.scope_usage')).toEqual([])
})

test('a clock that went back does not leave a bucket empty for long, and one that is behind by little fills nothing', async () => {
  const { engine } = engineWith({ newKeys: { max: 1, perMs: HOUR_MS } })
  await engine.execute(note, request('k0'))
  await database.rows(`UPDATE pawl.scope_usage SET refilled_at = clock_timestamp() + interval '5 minutes'`)
  expect(await engine.execute(note, request('k1'))).toMatchObject({ type: 'limited' })
  await database.rows(`UPDATE pawl.scope_usage SET refilled_at = clock_timestamp() + interval '1 day'`)
  expect(await engine.execute(note, request('k2'))).toMatchObject({ type: 'completed' })
})

test('is announced', async () => {
  const { engine } = engineWith({ newKeys: { max: 1, perMs: HOUR_MS } })
  const heard: unknown[] = []
  onTestFinished(subscribe('pawl:limited', (message) => void heard.push(message)))
  for (const key of keys(2)) await engine.execute(note, request(key))
  expect(heard).toMatchObject([{ pipeline: 'note', limit: 'new_keys', of: 'scope' }])
})
