import { randomUUID } from 'node:crypto'
import { createBackground, type EngineOptions, respond } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { DuplicateCounter } from '../../packages/core/src/engine/duplicate-counter.js'
import { contextOf } from '../../packages/core/src/engine/engine-context.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { gate, hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { onlyDeep } from '../support/amounts.js'

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.create()
})
afterEach(() => database.drop())

const note = pipeline<null>({ name: 'note', version: 1 }).finish(() => respond(204))
const other = pipeline<null>({ name: 'other', version: 1 }).finish(() => respond(204))

function engineOf(options: Partial<EngineOptions<Database>> = {}) {
  const engine = createEngine({
    pool: database.pool(),
    pipelines: [note, other],
    schema: database.schema,
    countDuplicates: true,
    ...options,
  })
  onTestFinished(() => engine.close())
  return engine
}

/** All counts, without their minutes. */
const counts = () =>
  database.rows<Record<string, unknown>>(
    `SELECT scope, pipeline, sum(replayed)::int AS replayed, sum(in_flight)::int AS in_flight, sum(mismatched)::int AS mismatched
       FROM pawl.duplicates GROUP BY scope, pipeline ORDER BY scope, pipeline`,
  )

const request = (key: string, scope = 'somebody', fingerprint = 'the same') => ({
  scope,
  key,
  input: null,
  fingerprint,
})

describe('what is counted', () => {
  test('is each duplicate by what it got, exactly, once the engine has closed: fifty at a time', async () => {
    const entered = gate()
    const leave = gate()
    const slow = pipeline<null>({ name: 'slow', version: 1 }).finish(async () => {
      entered.open()
      await leave.opened
      return respond(204)
    })
    const engine = engineOf({ pipelines: [note, other, slow], pool: database.pool({ max: 20 }) })
    const first = engine.execute(slow, request('k'))
    await entered.opened
    const ends = await Promise.all(Array.from({ length: 50 }, () => engine.execute(slow, request('k'))))
    expect(new Set(ends.map(({ type }) => type))).toEqual(new Set(['in_flight']))
    leave.open()
    await first
    await Promise.all(Array.from({ length: 50 }, () => engine.execute(slow, request('k'))))
    await Promise.all(
      Array.from({ length: 50 }, () => engine.execute(slow, request('k', 'somebody', 'another'))),
    )
    await engine.execute(other, request('k'))
    await engine.execute(note, request('k', 'somebody else'))
    await engine.execute(note, request('k', 'somebody else'))
    await engine.close()
    expect(await counts()).toEqual([
      { scope: 'somebody', pipeline: 'other', replayed: 0, in_flight: 0, mismatched: 1 },
      { scope: 'somebody', pipeline: 'slow', replayed: 50, in_flight: 50, mismatched: 50 },
      { scope: 'somebody else', pipeline: 'note', replayed: 1, in_flight: 0, mismatched: 0 },
    ])
  })

  test('is what is enqueued again, too', async () => {
    const engine = engineOf()
    for (let times = 0; times < 3; times++) await engine.enqueue(note, request('k'))
    await engine.close()
    expect(await counts()).toEqual([
      { scope: 'somebody', pipeline: 'note', replayed: 0, in_flight: 2, mismatched: 0 },
    ])
  })

  test('adds up over engines, in the minute of the database', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3_600_000 })
    onTestFinished(() => void vi.useRealTimers())
    const engines = Array.from({ length: 4 }, () => engineOf())
    for (const engine of engines)
      for (let times = 0; times < 3; times++) await engine.execute(note, request('k'))
    await Promise.all(engines.map((engine) => engine.close()))
    expect(await counts()).toEqual([
      { scope: 'somebody', pipeline: 'note', replayed: 11, in_flight: 0, mismatched: 0 },
    ])
    expect(
      await database.rows(
        `SELECT DISTINCT date_trunc('minute', minute) = minute AS whole, clock_timestamp() - minute < interval '2 min' AS now
           FROM pawl.duplicates`,
      ),
    ).toEqual([{ whole: true, now: true }])
  })

  test('is nothing unless the engine is asked to: nobody writes, and nothing is kept in memory', async () => {
    const count = vi.spyOn(DuplicateCounter.prototype, 'count')
    const engine = engineOf({ countDuplicates: false })
    for (let times = 0; times < 3; times++) await engine.execute(note, request('k'))
    await engine.close()
    expect(count).not.toHaveBeenCalled()
    expect(await counts()).toEqual([])
  })
})

test('a request waits for nothing of it: it is written now and then, on a connection of its own', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const engine = engineOf({ countDuplicates: { everyMs: 5_000 } })
  for (let times = 0; times < 3; times++) await engine.execute(note, request('k'))
  expect(await counts()).toEqual([])
  const flush = vi.spyOn(DuplicateCounter.prototype, 'flush')
  await vi.advanceTimersByTimeAsync(4_999)
  expect(flush).not.toHaveBeenCalled()
  await vi.advanceTimersByTimeAsync(1)
  await flush.mock.results[0]?.value
  expect(await counts()).toMatchObject([{ replayed: 2 }])
  // Nothing to write, nothing to wait for.
  await vi.advanceTimersByTimeAsync(60_000)
  expect(flush).toHaveBeenCalledTimes(1)
})

test('memory is bounded: beyond a thousand counts, further scopes are counted together', async () => {
  const counter = counterOn(database.pool())
  for (let nth = 0; nth < 5_000; nth++) counter.count(`scope-${nth}`, 'note', 'replayed')
  expect(counter.size).toBe(1_001)
  counter.count('scope-0', 'note', 'mismatch')
  await counter.flush()
  expect(counter.size).toBe(0)
  const stored = await counts()
  expect(stored).toHaveLength(1_001)
  expect(stored[0]).toEqual({ scope: '', pipeline: 'note', replayed: 4_000, in_flight: 0, mismatched: 0 })
  expect(stored[1]).toMatchObject({ scope: 'scope-0', replayed: 1, mismatched: 1 })
})

test('what is no duplicate is not counted, whatever it is called', () => {
  const counter = counterOn(database.pool())
  for (const outcome of ['completed', 'limited', 'stuck', 'constructor', '__proto__'])
    counter.count('s', 'p', outcome)
  expect(counter.size).toBe(0)
})

describe('what cannot be written', () => {
  test('is written with what comes later, and reported once', async () => {
    const warnings = hear('pawl:warning')
    const away = await PostgresProxy.start(database.url)
    await away.close()
    const counter = counterOn(database.pool({ connectionString: away.url }))
    counter.count('s', 'note', 'replayed')
    await counter.flush()
    await counter.flush()
    expect(warnings.map(({ message }) => message)).toEqual([
      expect.stringContaining('duplicates could not be counted'),
    ])
    const back = await PostgresProxy.start(database.url, Number(new URL(away.url).port))
    onTestFinished(() => back.close())
    counter.count('s', 'note', 'replayed')
    await counter.flush()
    expect(await counts()).toMatchObject([{ replayed: 2 }])
  })

  test('because somebody has locked the table, keeps no connection from requests for long', async () => {
    const pool = database.pool({ max: 1 })
    const engine = engineOf({ pool })
    await engine.execute(note, request('k'))
    await engine.execute(note, request('k'))
    const locker = await database.pool().connect()
    await locker.query(`BEGIN; LOCK TABLE "${database.schema}".duplicates, "${database.schema}".pipelines`)
    const counter = counterOn(pool)
    counter.count('s', 'note', 'replayed')
    const written = Promise.all([counter.flush(), engine.recordPipelines()])
    const askedAt = performance.now()
    const outcome = await engine.execute(note, request('k'))
    const tookMs = performance.now() - askedAt
    await locker.query('ROLLBACK')
    locker.release()
    await written
    expect(outcome).toMatchObject({ type: 'replayed' })
    expect(tookMs).toBeLessThan(1_000)
    await counter.flush()
    expect(await counts()).toMatchObject([{ scope: 's', replayed: 1 }])
  })

  test.each([null, undefined, 'text', Object.create(null)])(
    'rejects nothing, whatever a pool throws: %o',
    async (thrown) => {
      const warnings = hear('pawl:warning')
      const pool = database.pool()
      vi.spyOn(pool, 'connect').mockImplementation(() => {
        throw thrown
      })
      const counter = counterOn(pool)
      counter.count('s', 'note', 'replayed')
      await counter.flush()
      const engine = engineOf({ pool })
      await engine.recordPipelines()
      expect(warnings.map(({ message }) => message)).toEqual([
        expect.stringContaining('duplicates could not be counted'),
        expect.stringContaining('The pipelines could not be recorded'),
      ])
    },
  )

  test('is not written twice: whether it was, nobody knows if the answer is lost', async () => {
    const proxy = await PostgresProxy.start(database.url)
    onTestFinished(() => proxy.close())
    const counter = counterOn(database.pool({ connectionString: proxy.url }))
    counter.count('s', 'note', 'replayed')
    const lost = proxy.armStatement('"duplicates"', 'answer_lost')
    await counter.flush()
    await lost
    await counter.flush()
    expect(await counts()).toMatchObject([{ replayed: 1 }])
  })

  test('for lack of a right, says what to grant', async () => {
    const role = `rides_${randomUUID().replaceAll('-', '').slice(0, 12)}`
    await database.rows(`CREATE ROLE ${role}; GRANT USAGE ON SCHEMA ${database.schema} TO ${role}`)
    const warnings = hear('pawl:warning')
    const counter = counterOn(database.pool({ options: `-c role=${role}` }))
    counter.count('s', 'note', 'replayed')
    await counter.flush()
    expect(warnings.map(({ message }) => message)).toEqual([
      expect.stringContaining(
        `GRANT SELECT, INSERT, UPDATE, DELETE ON "${database.schema}"."duplicates" TO "${role}";`,
      ),
    ])
    await database.admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
  })

  onlyDeep(() => {
    test('does not keep an engine from closing while the database does not answer', async () => {
      const proxy = await PostgresProxy.start(database.url)
      onTestFinished(() => proxy.close())
      const pool = database.pool({ connectionString: proxy.url, max: 1 })
      const engine = engineOf({ pool })
      for (let times = 0; times < 2; times++) await engine.execute(note, request('k'))
      proxy.stall()
      const begun = performance.now()
      await engine.close()
      expect(performance.now() - begun).toBeLessThan(9_000)
      proxy.flow()
    })
  })
})

test('the reaper deletes what is older than a day, batch by batch, and nothing else', async () => {
  await database.rows(
    `INSERT INTO pawl.duplicates (scope, minute, pipeline, replayed)
     SELECT 'scope-' || n, date_trunc('minute', clock_timestamp()) - n * interval '1 hour', 'note', 1 FROM generate_series(0, 99) AS n`,
  )
  const engine = engineOf()
  const { reaper } = createBackground({ engine, completer: false, reaper: { batchSize: 10, pauseMs: 0 } })
  expect(await reaper?.runOnce()).toMatchObject({ duplicatesDeleted: 76 })
  expect(await counts()).toHaveLength(24)
  expect(await reaper?.runOnce()).toMatchObject({ duplicatesDeleted: 0 })
})

test('erasing a scope erases its counts, also those that are not written yet', async () => {
  const engine = engineOf()
  for (const scope of ['erased', 'kept'])
    for (let times = 0; times < 2; times++) await engine.execute(note, request('k', scope))
  await database.rows(
    `INSERT INTO pawl.duplicates (scope, minute, pipeline, replayed) SELECT 'erased', clock_timestamp(), 'note', 1`,
  )
  await engine.erase({ scope: 'erased', actor: 'test', reason: 'asked to' })
  await engine.close()
  expect(await counts()).toMatchObject([{ scope: 'kept', replayed: 1 }])
})

function counterOn(pool: ReturnType<TestDatabase['pool']>): DuplicateCounter {
  const { sessions, tables } = contextOf(engineOf({ pool }), 'test')
  const counter = new DuplicateCounter({ sessions, tables }, 60_000)
  onTestFinished(() => counter.halt())
  return counter
}
