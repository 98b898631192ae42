import { type Outcome, type PipelineLimitsOption, respond, retryLater, subscribe } from '@pawl/core'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { countOf, HOUR_MS, keysOf, limitedEngine, requestOf } from '../support/limited-engine.js'
import { createRideTables, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
})
afterEach(() => database.drop())

const named = (name: string, limits?: PipelineLimitsOption) =>
  pipeline<null>({ name, version: 1, ...(limits === undefined ? {} : { limits }) }).finish(() => respond(204))
const unending = (name: string, limits: PipelineLimitsOption) =>
  pipeline<null>({ name, version: 1, limits }).finish(() => retryLater())

const perHour = (max: number) => ({ newKeys: { max, perMs: HOUR_MS } })

const buckets = () =>
  database.rows<{ pipeline: string; left: number }>(
    `SELECT pipeline, floor(tokens)::int AS left FROM pawl.scope_usage ORDER BY pipeline`,
  )

test("a pipeline's bucket is its own for each scope, and leaves other pipelines alone", async () => {
  const [rare, common] = [named('rare', perHour(2)), named('common')]
  const { engine, steps } = limitedEngine(database, { pipelines: [rare, common] })
  for (const scope of ['one', 'two']) {
    const outcomes: Outcome[] = []
    for (const key of keysOf(4)) outcomes.push(await engine.execute(rare, requestOf(key, scope)))
    expect(outcomes.map(({ type }) => type)).toEqual(['completed', 'completed', 'limited', 'limited'])
    expect(outcomes[2]).toMatchObject({ limit: 'new_keys', of: 'pipeline', max: 2, perMs: HOUR_MS })
    for (const key of keysOf(4, 'other'))
      expect(await engine.execute(common, requestOf(key, scope))).toMatchObject({ type: 'completed' })
  }
  // One statement each. Before a request is refused, one more says how long, and one finds no key to replay.
  expect(steps.filter((step) => step === 'insert_key')).toHaveLength(16)
  for (const step of ['find_tokens', 'find_key'])
    expect(steps.filter((each) => each === step)).toHaveLength(4)
  expect(steps).toHaveLength(24)
})

test('both the limits of the engine and those of the pipeline hold, and a request takes a token of each', async () => {
  const [rare, common] = [named('rare', perHour(2)), named('common')]
  const { engine } = limitedEngine(database, { pipelines: [rare, common], limits: perHour(3) })
  const types: string[] = []
  for (const [key, of] of [
    ['a', rare],
    ['b', rare],
    ['c', rare],
    ['d', common],
    ['e', common],
    ['f', rare],
  ] as const) {
    const outcome = await engine.execute(of, requestOf(key))
    types.push(outcome.type === 'limited' ? `${outcome.of} ${outcome.max}` : outcome.type)
  }
  expect(types).toEqual(['completed', 'completed', 'pipeline 2', 'completed', 'scope 3', 'pipeline 2'])
})

test('of two buckets, it is the empty one that refuses, however slowly the other fills', async () => {
  const quick = named('quick', { newKeys: { max: 1, perMs: 60_000 } })
  const { engine } = limitedEngine(database, { pipelines: [quick], limits: perHour(10) })
  await engine.execute(quick, requestOf('a'))
  const refused = await engine.execute(quick, requestOf('b'))
  expect(refused).toMatchObject({ type: 'limited', of: 'pipeline', max: 1, perMs: 60_000 })
  expect(refused).toHaveProperty(
    'retryAfterMs',
    expect.toSatisfy((ms: number) => ms > 0 && ms <= 60_000),
  )
})

test('a bucket that nobody has taken from is full, and refuses nobody', async () => {
  const [used, fresh] = [named('used'), named('fresh', perHour(2))]
  const limits = { newKeys: { max: 1, perMs: 60_000 } }
  const { engine } = limitedEngine(database, { pipelines: [used, fresh], limits })
  await engine.execute(used, requestOf('a'))
  const refused = await engine.execute(fresh, requestOf('b'))
  expect(refused).toMatchObject({ type: 'limited', of: 'scope', max: 1, perMs: 60_000 })
  expect(refused).toHaveProperty(
    'retryAfterMs',
    expect.toSatisfy((ms: number) => ms > 0 && ms <= 60_000),
  )
})

test('what one bucket refuses takes nothing from the other', async () => {
  const rare = named('rare', perHour(2))
  const { engine, steps } = limitedEngine(database, { pipelines: [rare], limits: perHour(100) })
  const outcomes = await Promise.all(keysOf(30).map((key) => engine.execute(rare, requestOf(key))))
  expect(countOf(outcomes, 'completed')).toBe(2)
  // Those that have met at the last token have given back what they had taken of the other. Who comes later takes none.
  steps.length = 0
  for (const key of keysOf(10, 'late')) await engine.execute(rare, requestOf(key))
  expect(steps).not.toContain('return_token')
  expect(await buckets()).toEqual([
    { pipeline: '', left: 98 },
    { pipeline: 'rare', left: 0 },
  ])
})

test('attempts of one new request at the same moment take one token of each', async () => {
  const rare = named('rare', perHour(3))
  const { engine } = limitedEngine(database, { pipelines: [rare], limits: perHour(50) })
  await Promise.all(Array.from({ length: 20 }, () => engine.execute(rare, requestOf('same'))))
  expect(await buckets()).toEqual([
    { pipeline: '', left: 49 },
    { pipeline: 'rare', left: 2 },
  ])
})

test("unfinished keys of a pipeline count towards its limit and the engine's, those of others only towards the engine's", async () => {
  const [few, many] = [unending('few', { unfinished: 1 }), unending('many', {})]
  const { engine } = limitedEngine(database, { pipelines: [few, many], limits: { unfinished: 3 } })
  // Somebody else's do not fill it.
  expect((await engine.execute(many, requestOf('c'))).type).toBe('retry_later')
  expect((await engine.execute(few, requestOf('a'))).type).toBe('retry_later')
  const refused = { type: 'limited', limit: 'unfinished', perMs: null, retryAfterMs: 1_000 }
  expect(await engine.execute(few, requestOf('b'))).toEqual({ ...refused, of: 'pipeline', max: 1 })
  expect((await engine.execute(many, requestOf('d'))).type).toBe('retry_later')
  expect(await engine.execute(many, requestOf('e'))).toEqual({ ...refused, of: 'scope', max: 3 })
  // A retry is no new key, whatever is full.
  expect((await engine.execute(few, requestOf('a'))).type).toBe('retry_later')
})

test('by a function of the scope, also as a default of all pipelines, each with a bucket of its own', async () => {
  const [one, other, own] = [named('one'), named('other'), named('own', () => null)]
  const defaults = { limits: (scope: string) => (scope === 'free' ? perHour(1) : null) }
  const { engine } = limitedEngine(database, { pipelines: [one, other, own], defaults })
  const types = async (scope: string) => {
    const outcomes: Outcome[] = []
    for (const of of [one, other, own])
      for (const key of keysOf(2, of.name)) outcomes.push(await engine.execute(of, requestOf(key, scope)))
    return outcomes.map(({ type }) => type)
  }
  expect(await types('free')).toEqual([
    'completed',
    'limited',
    'completed',
    'limited',
    'completed',
    'completed',
  ])
  expect(new Set(await types('paid'))).toEqual(new Set(['completed']))
})

test('a function that throws names its pipeline', async () => {
  const cause = new Error('no plan')
  const throwing = named('throwing', () => {
    throw cause
  })
  const { engine } = limitedEngine(database, { pipelines: [throwing] })
  await expect(engine.execute(throwing, requestOf('k'))).rejects.toMatchObject({
    code: 'PAWL_INVALID_OPTION',
    message: expect.stringContaining(`pipeline 'throwing': limits threw`) as string,
    cause,
  })
  const lookups = named('lookups', () => ({ lookups: { max: 1, perMs: 1 } }) as never)
  const { engine: other } = limitedEngine(database, { pipelines: [lookups] })
  await expect(other.execute(lookups, requestOf('k'))).rejects.toThrow("unknown option 'lookups'")
})

test('is announced with whose limit it was', async () => {
  const rare = named('rare', perHour(1))
  const { engine } = limitedEngine(database, { pipelines: [rare] })
  const heard: unknown[] = []
  onTestFinished(subscribe('pawl:limited', (message) => void heard.push(message)))
  for (const key of keysOf(2)) await engine.execute(rare, requestOf(key))
  expect(heard).toMatchObject([{ pipeline: 'rare', limit: 'new_keys', of: 'pipeline' }])
})
