import { randomUUID } from 'node:crypto'
import { createBackground, createOperator, type Engine, type Outcome, respond, retryLater } from '@pawl/core'
import { executeAtomic } from '@pawl/core/internal'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { dieAt } from '../support/die-at.js'
import { countOf, keysOf, limitedEngine } from '../support/limited-engine.js'
import { createRideTables, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
})
afterEach(() => database.drop())

/** What is counted of a key beside its values. */
const ROW = 1_300
const PLENTY = { storedBytes: 1_000_000_000 }

const letters = (count: number) => 'x'.repeat(count)
/** Answers with as many letters as it is asked for, and remembers half as many. */
const echo = pipeline<{ in: string; out: number }>({ name: 'echo', version: 1 })
  .local('noted', ({ input }) => ({ half: letters(input.out / 2) }))
  .finish(({ input }) => respond(200, letters(input.out), { headers: { 'content-type': 'text/plain' } }))
const waits = pipeline<string>({ name: 'waits', version: 1 }).finish(() => retryLater())

const of = (key: string, scope = 's') => ({ scope, key })

/** Per scope and pipeline: what the keys take, and what is counted. */
const counts = () =>
  database.rows<{ scope: string; pipeline: string; kept: number; counted: number }>(
    `SELECT scope, pipeline, coalesce(k.bytes, 0)::int AS kept, coalesce(u.bytes, 0)::int AS counted
       FROM (SELECT scope, pipeline, sum(stored_bytes) AS bytes FROM pawl.idempotency_keys GROUP BY scope, pipeline) AS k
       FULL JOIN (SELECT scope, pipeline, sum(bytes) AS bytes FROM pawl.scope_usage WHERE kind = 'stored_bytes'
                   GROUP BY scope, pipeline) AS u USING (scope, pipeline)
      ORDER BY scope, pipeline`,
  )
/** What the values take that a key's count is made of. */
const sizes = () =>
  database.rows<{ key: string; is: number; should_be: number }>(
    `SELECT key, stored_bytes::int AS is,
            ${ROW} + octet_length(input::text) + CASE status WHEN 'finished' THEN octet_length(state::text)
              + octet_length(response_headers::text) + octet_length(response_body) ELSE 0 END AS should_be
       FROM pawl.idempotency_keys WHERE stored_bytes > 0`,
  )

async function expectRight(): Promise<void> {
  for (const each of await counts()) expect(each).toEqual({ ...each, counted: each.kept })
  for (const each of await sizes()) expect(each).toEqual({ ...each, is: each.should_be })
}

const total = async (): Promise<number> => (await counts()).reduce((sum, { counted }) => sum + counted, 0)
const expireAll = () =>
  database.rows(
    `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 s' WHERE status = 'finished'`,
  )
const reap = async (engine: Engine<Database>) => {
  const { reaper } = createBackground({ engine, completer: false, relay: [] })
  return reaper?.runOnce()
}

test('a new key is refused where it would not fit, and fits again once the reaper has deleted others', async () => {
  const { engine, steps } = limitedEngine(database, { pipelines: [echo], limits: { storedBytes: 6_000 } })
  const small = { in: 'x', out: 10 }
  expect((await engine.execute(echo, { ...of('a'), input: small })).type).toBe('completed')
  await expectRight()
  expect(steps).toEqual(['insert_key'])
  const refused = {
    type: 'limited',
    limit: 'stored_bytes',
    of: 'scope',
    max: 6_000,
    perMs: null,
    retryAfterMs: 60_000,
  }
  const large = { in: letters(4_000), out: 10 }
  expect(await engine.execute(echo, { ...of('b'), input: large })).toEqual(refused)
  // Another scope has room of its own, and a replay needs none.
  expect((await engine.execute(echo, { ...of('b', 'other'), input: small })).type).toBe('completed')
  for (const key of ['c', 'd', 'e']) await engine.execute(echo, { ...of(key), input: small })
  expect(await engine.execute(echo, { ...of('f'), input: small })).toEqual(refused)
  expect((await engine.execute(echo, { ...of('a'), input: small })).type).toBe('replayed')
  await expireAll()
  expect(await reap(engine)).toMatchObject({ deleted: 5 })
  await expectRight()
  expect(await total()).toBe(0)
  expect((await engine.execute(echo, { ...of('f'), input: small })).type).toBe('completed')
})

test('of one pipeline, and of all together', async () => {
  const own = pipeline<string>({ name: 'own', version: 1, limits: { storedBytes: 3_000 } }).finish(() =>
    respond(204),
  )
  const other = pipeline<string>({ name: 'other', version: 1 }).finish(() => respond(204))
  const { engine } = limitedEngine(database, { pipelines: [own, other], limits: { storedBytes: 5_500 } })
  const types: string[] = []
  for (const [key, from] of [
    ['a', other],
    ['b', own],
    ['c', own],
    ['d', own],
    ['e', other],
    ['f', other],
  ] as const) {
    const outcome = await engine.execute(from, { ...of(key), input: 'x' })
    types.push(outcome.type === 'limited' ? `${outcome.of} ${outcome.max}` : outcome.type)
  }
  expect(types).toEqual(['completed', 'completed', 'completed', 'pipeline 3000', 'completed', 'scope 5500'])
  await expectRight()
})

const TWO = { ...PLENTY, newKeys: { max: 2, perMs: 3_600_000 } }

test.each([
  ['of the scope', { limits: TWO }],
  ['of the pipeline', { defaults: { limits: TWO } }],
])(
  'limits %s: a key is counted once, however many ask for it, and not if another limit refuses it',
  async (_of, options) => {
    const { engine } = limitedEngine(database, { pipelines: [waits], ...options })
    await Promise.all(Array.from({ length: 20 }, () => engine.execute(waits, { ...of('same'), input: 'x' })))
    expect(await total()).toBe(ROW + 3)
    const outcomes = await Promise.all(
      keysOf(10).map((key) => engine.execute(waits, { ...of(key), input: 'x' })),
    )
    expect(countOf(outcomes, 'limited')).toBe(9)
    expect(await total()).toBe(2 * (ROW + 3))
    await expectRight()
  },
)

test('it can be overshot by what is reserved at the same moment and by what unfinished keys become, and by no more', async () => {
  const connections = 4
  const input = letters(1_000)
  const each = ROW + input.length + 2
  const limits = { storedBytes: 3 * each }
  const { engine } = limitedEngine(database, {
    pipelines: [waits],
    limits,
    pool: database.pool({ max: connections }),
  })
  const outcomes = await Promise.all(keysOf(40).map((key) => engine.execute(waits, { ...of(key), input })))
  const inserted = outcomes.length - countOf(outcomes, 'limited')
  expect(inserted).toBeGreaterThanOrEqual(3)
  expect(inserted).toBeLessThanOrEqual(3 + connections - 1)
  // Everything from now on is refused.
  const late = await Promise.all(
    keysOf(10, 'late').map((key) => engine.execute(waits, { ...of(key), input })),
  )
  expect(countOf(late, 'limited')).toBe(10)
  await expectRight()
})

test('what an unfinished key becomes is counted when it ends, and is over the limit by its state and its answer', async () => {
  const { engine } = limitedEngine(database, { pipelines: [echo], limits: { storedBytes: 2_000 } })
  const input = { in: 'x', out: 8_000 }
  expect((await engine.execute(echo, { ...of('a'), input })).type).toBe('completed')
  expect(await total()).toBeGreaterThan(2_000)
  expect(await total()).toBeLessThan(2_000 + 8_000 + 4_000 + 200)
  await expectRight()
  expect((await engine.execute(echo, { ...of('b'), input })).type).toBe('limited')
})

test.each(['nothing', 'input', 'all'] as const)('with wipe %s, what is gone is not counted', async (wipe) => {
  const { engine } = limitedEngine(database, { pipelines: [echo], limits: PLENTY, defaults: { wipe } })
  expect((await engine.execute(echo, { ...of('a'), input: { in: letters(500), out: 100 } })).type).toBe(
    'completed',
  )
  await expectRight()
  expect((await total()) > ROW + 500).toBe(wipe === 'nothing')
})

test('an answer, a key forgotten by hand, an atomic handler that threw, and an erasure keep the count right', async () => {
  const handler = pipeline<string>({ name: 'handler', version: 1 }).finish(() => {
    throw new Error('rolled back')
  })
  const { engine } = limitedEngine(database, { pipelines: [echo, waits], limits: PLENTY })
  const because = { actor: 'anna', reason: 'test' }
  const operator = createOperator({ pool: database.pool(), schema: database.schema })
  await engine.execute(waits, { ...of('stuck'), input: 'x' })
  await database.rows(`UPDATE pawl.idempotency_keys SET status = 'stuck', stuck_reason = 'too_old'`)
  const [{ id: keyId } = { id: '' }] = await database.rows<{ id: string }>(
    'SELECT id FROM pawl.idempotency_keys',
  )
  await operator.answer({ keyId }, because, { status: 410, body: letters(700) })
  await expectRight()
  expect(await total()).toBeGreaterThan(ROW + 700)

  await operator.forget({ keyId }, because, { effectsUndone: true })
  await expectRight()
  expect(await total()).toBe(0)

  expect((await executeAtomic(engine, handler, { ...of('atomic'), input: 'x' })).type).toBe('retry_later')
  expect(await database.rows('SELECT 1 FROM pawl.idempotency_keys')).toEqual([])
  expect(await total()).toBe(0)

  for (const key of ['a', 'b']) await engine.execute(echo, { ...of(key), input: { in: 'x', out: 10 } })
  await engine.execute(waits, { ...of('running'), input: 'x' })
  const first = await engine.erase({ scope: 's', ...because })
  expect(first.kept).toMatchObject([{ why: 'running' }])
  await expectRight()
  expect(await total()).toBe(ROW + 3)
  await database.rows(`UPDATE pawl.idempotency_keys SET status = 'stuck', stuck_reason = 'too_old'`)
  await operator.answer({ scope: 's', key: 'running' }, because, { status: 410, body: null })
  expect((await engine.erase({ scope: 's', recentEffects: true, ...because })).complete).toBe(true)
  expect(await database.rows('SELECT 1 FROM pawl.scope_usage')).toEqual([])
})

test('an atomic handler whose process died is forgotten with its count', async () => {
  const handler = pipeline<string>({ name: 'handler', version: 1 }).finish(() => respond(204))
  await dieAt(database, { pipelines: [], limits: PLENTY }, 'finished/begin#1:before', (engine) =>
    executeAtomic(engine, handler, { ...of('a'), input: 'x' }),
  )
  expect(await total()).toBe(ROW + 3)
  await database.rows(`UPDATE pawl.idempotency_keys SET created_at = created_at - interval '3 days'`)
  const { engine } = limitedEngine(database, { pipelines: [], limits: PLENTY })
  await executeAtomic(engine, handler, { ...of('another'), input: 'x' })
  const { completer } = createBackground({ engine, reaper: false, relay: [] })
  await completer?.runOnce()
  expect(await database.rows(`SELECT key FROM pawl.idempotency_keys`)).toEqual([{ key: 'another' }])
  await expectRight()
})

test('engines with and without limits on one schema: what was counted at its reservation is taken off again, and no more', async () => {
  const limited = limitedEngine(database, {
    pipelines: [echo, waits],
    limits: { ...PLENTY, unfinished: 5 },
  }).engine
  const free = limitedEngine(database, { pipelines: [echo, waits] }).engine
  const input = { in: 'x', out: 100 }
  await free.execute(echo, { ...of('free'), input })
  expect(await counts()).toEqual([{ scope: 's', pipeline: 'echo', kept: 0, counted: 0 }])
  await limited.execute(echo, { ...of('limited'), input })
  const before = await total()
  expect(before).toBeGreaterThan(ROW)
  // Reserved by one and ended by the other, both ways round.
  await dieAt(database, { pipelines: [echo], limits: PLENTY }, 'noted/begin#1:before', (engine) =>
    engine.execute(echo, { ...of('theirs'), input }),
  )
  await free.execute(echo, { ...of('theirs'), input })
  await dieAt(database, { pipelines: [echo] }, 'noted/begin#1:before', (engine) =>
    engine.execute(echo, { ...of('ours'), input }),
  )
  await limited.execute(echo, { ...of('ours'), input })
  expect(await total()).toBe(before + ROW + JSON.stringify(input).length)
  for (const each of await counts()) expect(each.counted).toBe(each.kept)
  // Unfinished keys are counted in the table, whoever has reserved them.
  for (const [key, engine] of [
    ['1', free],
    ['2', limited],
    ['3', free],
    ['4', limited],
    ['5', free],
  ] as const)
    expect((await engine.execute(waits, { ...of(key), input: 'x' })).type).toBe('retry_later')
  expect(await limited.execute(waits, { ...of('6'), input: 'x' })).toMatchObject({ limit: 'unfinished' })
  expect((await free.execute(waits, { ...of('6'), input: 'x' })).type).toBe('retry_later')
  // A reaper without limits takes off what others have counted.
  await expireAll()
  expect(await reap(free)).toMatchObject({ deleted: 4 })
  for (const each of await counts()) expect(each.counted).toBe(each.kept)
  expect(await total()).toBe(2 * (ROW + 3))
})

test('under a stricter isolation, requests that end together do not fail over the count, and the reaper puts it together', async () => {
  const strict = pipeline<string>({
    name: 'strict',
    version: 1,
    isolation: 'repeatable read',
    transactionRetries: 0,
  })
    .local('read', async ({ tx }) => void (await tx.selectFrom('audit').selectAll().execute()))
    .finish(() => respond(204))
  const { engine } = limitedEngine(database, { pipelines: [strict], limits: PLENTY })
  const outcomes: Outcome[] = []
  for (let round = 0; round < 4; round++)
    outcomes.push(
      ...(await Promise.all(
        keysOf(12, `r${round}`).map((key) => engine.execute(strict, { ...of(key), input: 'x' })),
      )),
    )
  expect(countOf(outcomes, 'completed')).toBe(48)
  await expectRight()
  const parts = () => database.rows(`SELECT 1 FROM pawl.scope_usage WHERE kind = 'stored_bytes'`)
  expect((await parts()).length).toBeGreaterThan(40)
  const before = await total()
  await reap(engine)
  expect(await parts()).toHaveLength(1)
  expect(await total()).toBe(before)
  await expectRight()
})

test('after a storm of requests, kills, expiry, answers and erasures, the count is what the tables have', async () => {
  const failing = pipeline<string>({ name: 'failing', version: 1 }).finish(() => {
    throw new Error('always')
  })
  const handler = pipeline<string>({ name: 'handler', version: 1 }).finish(({ input }) => {
    if (input.length % 2 === 0) throw new Error('rolled back')
    return respond(204)
  })
  const application_name = `storm_${randomUUID().slice(0, 8)}`
  const pool = database.pool({ max: 12, application_name })
  const limits = { storedBytes: 40_000, unfinished: 30 }
  const options = { pipelines: [echo, waits, failing], limits, pool, breaker: false as const }
  const { engine } = limitedEngine(database, options)
  const quiet = limitedEngine(database, { ...options, pool: database.pool() }).engine
  const operator = createOperator({ pool: database.pool(), schema: database.schema })
  const because = { actor: 'anna', reason: 'storm' }
  let over = 0
  const kill = () =>
    database.rows(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 ORDER BY random() LIMIT 3`,
      [application_name],
    )
  for (let round = 0; round < 6; round++) {
    const requests = keysOf(40, `r${round}-`).map(async (key, n) => {
      const scope = `s${n % 4}`
      const input = letters(n * 10)
      if (n % 8 === 5) return executeAtomic(engine, handler, { ...of(key, scope), input })
      if (n % 8 === 6) return engine.execute(failing, { ...of(key, scope), input })
      if (n % 8 === 7) return engine.execute(waits, { ...of(key, scope), input })
      return engine.execute(echo, { ...of(key, scope), input: { in: input, out: n * 20 } })
    })
    const sent = Promise.all(requests)
    await kill()
    await Promise.all([reap(quiet), operator.reap(because), kill()])
    over += countOf(await sent, 'limited')
    await database.rows(
      `UPDATE pawl.idempotency_keys SET status = 'stuck', stuck_reason = 'too_old' WHERE status = 'running' AND random() < 0.3`,
    )
    const stuck = await database.rows<{ id: string }>(
      `SELECT id FROM pawl.idempotency_keys WHERE status = 'stuck' ORDER BY random() LIMIT 4`,
    )
    await database.rows(
      `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() WHERE status = 'finished' AND random() < 0.7`,
    )
    await Promise.all([
      ...stuck.map(({ id: keyId }) =>
        operator.answer({ keyId }, because, { status: 410, body: letters(99) }),
      ),
      reap(quiet),
      reap(engine).catch(() => {}),
      quiet.erase({ scope: `s${round % 4}`, ...because }),
    ])
    await expectRight()
  }
  // The limit was met, so that it was not only counted.
  expect(over).toBeGreaterThan(0)
  const [{ least } = { least: 0 }] = await database.rows<{ least: number }>(
    `SELECT min(bytes)::int AS least FROM (SELECT sum(bytes) AS bytes FROM pawl.scope_usage WHERE kind = 'stored_bytes'
      GROUP BY scope, pipeline) AS each`,
  )
  expect(least).toBeGreaterThanOrEqual(0)
})
