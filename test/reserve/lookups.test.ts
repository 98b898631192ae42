import { LimitedError, type Limits } from '@pawl/core'
import { inspectOwn } from '@pawl/core/internal'
import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { HOUR_MS, limitedEngine, note, requestOf } from '../support/limited-engine.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.create()
})
afterEach(() => database.drop())

const lookups = { max: 3, perMs: HOUR_MS }
const engineWith = (limits: Limits) => limitedEngine(database, { pipelines: [note], limits }).engine

test('a scope may look up so many keys, and one that exists costs what one costs that does not', async () => {
  const engine = engineWith({ lookups })
  await engine.execute(note, requestOf('there'))
  expect(await engine.inspect('s', 'there')).toMatchObject({ key: 'there' })
  expect(await engine.inspect('s', 'guessed')).toBeNull()
  expect(await inspectOwn(engine, { keyId: randomUUID(), scope: 's', origin: 'x' })).toBeNull()
  for (const key of ['there', 'guessed']) {
    const error = await engine.inspect('s', key).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(LimitedError)
    expect(error).toMatchObject({ code: 'PAWL_LIMITED', max: 3, perMs: HOUR_MS })
    const { retryAfterMs } = error as LimitedError
    expect(retryAfterMs).toBeGreaterThan(HOUR_MS / 4)
    expect(retryAfterMs).toBeLessThanOrEqual(HOUR_MS / 3)
  }
  // Other scopes have buckets of their own.
  expect(await engine.inspect('other', 'there')).toBeNull()
})

test('of many at once, as many are let through as the bucket holds', async () => {
  const engine = engineWith({ lookups })
  const asked = await Promise.allSettled(Array.from({ length: 30 }, (_, n) => engine.inspect('s', `k${n}`)))
  expect(asked.filter(({ status }) => status === 'fulfilled')).toHaveLength(3)
})

test('requests are no look-ups: they take no token of it, and are never refused by it', async () => {
  const engine = engineWith({ lookups: { max: 1, perMs: HOUR_MS } })
  await engine.inspect('s', 'nothing')
  await expect(engine.inspect('s', 'nothing')).rejects.toThrow(LimitedError)
  expect(await engine.execute(note, requestOf('k'))).toMatchObject({ type: 'completed' })
  expect(await engine.execute(note, requestOf('k'))).toMatchObject({ type: 'replayed' })
  expect(await engine.execute(note, { ...requestOf('k'), fingerprint: 'another' })).toMatchObject({
    type: 'mismatch',
  })
})

test('look-ups and new keys have buckets of their own', async () => {
  const engine = engineWith({ lookups: { max: 2, perMs: HOUR_MS }, newKeys: { max: 2, perMs: HOUR_MS } })
  await engine.inspect('s', 'nothing')
  for (const key of ['a', 'b']) expect((await engine.execute(note, requestOf(key))).type).toBe('completed')
  expect((await engine.execute(note, requestOf('c'))).type).toBe('limited')
  expect(await engine.inspect('s', 'a')).not.toBeNull()
  await expect(engine.inspect('s', 'a')).rejects.toThrow(LimitedError)
})

test('it is off unless it is set, and nothing is written then', async () => {
  const engine = engineWith({ newKeys: lookups })
  for (let time = 0; time < 5; time++) expect(await engine.inspect('s', 'nothing')).toBeNull()
  expect(await database.rows('SELECT 1 FROM pawl.scope_usage')).toEqual([])
})

test('a limit that is met is an answer of the database: the breaker stays closed', async () => {
  const { engine } = limitedEngine(database, {
    pipelines: [note],
    limits: { lookups: { max: 1, perMs: HOUR_MS } },
    breaker: { failures: 1, probeMs: 10_000 },
  })
  await engine.inspect('s', 'nothing')
  for (let time = 0; time < 3; time++)
    await expect(engine.inspect('s', 'nothing')).rejects.toThrow(LimitedError)
  expect(await engine.execute(note, requestOf('k'))).toMatchObject({ type: 'completed' })
})
