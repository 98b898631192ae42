import { randomUUID } from 'node:crypto'
import { createBackground, type Engine, InvalidInputError, respond } from '@pawl/core'
import { createProbedEngine, inspectOwn, OriginFingerprint } from '@pawl/core/internal'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, inject, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { heard } from '../support/heard.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables, type Database, pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { expectOneWholeRide } from '../support/whole-ride.js'

let database: TestDatabase
let provider: Provider
let ride: ReturnType<typeof createRideOf>
let request: { readonly scope: string; readonly key: string; readonly input: { readonly amount: number } }

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
  ride = createRideOf(provider)
  request = { scope: 'rider', key: randomUUID(), input: { amount: 700 } }
})
afterEach(() => database.drop())

function engineOf(pool = database.pool(), pipelines = [ride]): Engine<Database> {
  const engine = createEngine({ pool, pipelines, schema: database.schema })
  onTestFinished(() => engine.close())
  return engine
}

/** The whole row, with what shows whether anybody has written to it or locked it since. */
const row = async () => (await database.rows('SELECT ctid, xmin, xmax, * FROM pawl.idempotency_keys'))[0]

const completerOf = (engine: Engine<Database>) => createBackground({ engine, reaper: false })

describe('a new key', () => {
  test('is stored at once, held by nobody and never tried, and nothing has run', async () => {
    const engine = engineOf()
    const enqueued = hear('pawl:enqueued')
    const outcome = await engine.enqueue(ride, request)
    const { keyId } = (await engine.inspect(request.scope, request.key)) ?? {}
    expect(outcome).toEqual({ type: 'enqueued', keyId, fresh: true })
    expect(await row()).toMatchObject({
      status: 'running',
      recovery_point: 'started',
      fence: '1',
      attempts: 0,
      lease_until: null,
      run_after: null,
    })
    expect(enqueued).toMatchObject([{ keyId, pipeline: 'create-ride', version: 1 }])
    expect(await provider.requests()).toEqual([])
    expect(await database.rows('SELECT FROM rides')).toEqual([])
  })

  test('costs one statement', async () => {
    const steps: string[] = []
    const options = { pool: database.pool(), pipelines: [ride], schema: database.schema }
    const engine = createProbedEngine<Database>(
      options,
      ({ step, when }) => void (when === 'before' && steps.push(step)),
    )
    onTestFinished(() => engine.close())
    await engine.enqueue(ride, request)
    expect(steps).toEqual(['insert_key'])
    await engine.enqueue(ride, request)
    expect(steps).toEqual(['insert_key', 'insert_key', 'find_key'])
  })

  test('is found by its id, within its scope, at the place where it came in', async () => {
    const engine = engineOf()
    const fingerprint = new OriginFingerprint('POST /rides', { amount: 20 }) as never
    const outcome = await engine.enqueue(ride, { ...request, fingerprint })
    const { keyId = '' } = outcome.type === 'enqueued' ? outcome : {}
    const own = { keyId, scope: request.scope, origin: 'POST /rides' }
    expect(await inspectOwn(engine, own)).toMatchObject({ keyId, key: request.key, lease: null })
    expect(await inspectOwn(engine, { ...own, scope: 'somebody else' })).toBeNull()
    expect(await inspectOwn(engine, { ...own, origin: 'PUT /rides' })).toBeNull()
    expect(await inspectOwn(engine, { ...own, keyId: randomUUID() })).toBeNull()
    await expect(inspectOwn(engine, { ...own, keyId: 'none' })).rejects.toMatchObject({
      code: 'PAWL_INVALID_REQUEST',
    })
  })

  test('is not found by its id anywhere if the request did not say where it came in', async () => {
    const engine = engineOf()
    const outcome = await engine.enqueue(ride, request)
    const { keyId = '' } = outcome.type === 'enqueued' ? outcome : {}
    expect(await inspectOwn(engine, { keyId, scope: request.scope, origin: '' })).toBeNull()
  })
})

describe('an enqueued key is run', () => {
  test('by the completer of this process, which is woken', async () => {
    const engine = engineOf()
    const { completer } = createBackground({
      engine,
      completer: { pollMs: 3_600_000 },
      reaper: false,
    })
    onTestFinished(() => completer?.stop())
    const looked = heard('pawl:round')
    completer?.start()
    await looked
    const finished = heard('pawl:finished')
    await engine.enqueue(ride, request)
    await finished
    await expectOneWholeRide(database, provider)
  })

  test('by a completer of another process, in its next round', async () => {
    await engineOf().enqueue(ride, request)
    expect((await completerOf(engineOf()).runOnce()).completer).toMatchObject({ found: 1, completed: 1 })
    await expectOneWholeRide(database, provider)
  })

  test('by whoever executes it, as the second grant and the first attempt', async () => {
    const engine = engineOf()
    await engine.enqueue(ride, request)
    const takenOver = hear('pawl:taken_over')
    expect(await engine.execute(ride, request)).toMatchObject({
      type: 'completed',
      response: { status: 201 },
    })
    expect(takenOver).toMatchObject([{ fence: 2, attempts: 1 }])
    await expectOneWholeRide(database, provider)
  })

  test('as often as its attempts allow, and enqueueing does not count as one', async () => {
    const failing = pipeline<null>({ name: 'failing', version: 1, maxAttempts: 1 }).finish(() => {
      throw new Error('no')
    })
    const engine = createEngine({ pool: database.pool(), pipelines: [failing], schema: database.schema })
    onTestFinished(() => engine.close())
    await engine.enqueue(failing, { ...request, input: null })
    const failed = hear('pawl:phase_failed')
    expect((await completerOf(engine).runOnce()).completer).toMatchObject({ found: 1, stuck: 1 })
    expect(failed).toHaveLength(1)
    expect(await engine.enqueue(failing, { ...request, input: null })).toMatchObject({
      type: 'stuck',
      reason: 'attempts_exhausted',
    })
  })
})

describe('enqueued again', () => {
  test('a key stays the same, and nothing changes', async () => {
    const engine = engineOf()
    const first = await engine.enqueue(ride, request)
    const before = await row()
    const enqueued = hear('pawl:enqueued')
    expect(await engine.enqueue(ride, request)).toEqual({ ...first, fresh: false })
    expect(await row()).toEqual(before)
    expect(enqueued).toEqual([])
  })

  test('a key that a request is running does not change either', async () => {
    const engine = engineOf()
    await provider.willMeet('hold_then_execute')
    const running = engine.execute(ride, request)
    await provider.arrived()
    const before = await row()
    const { keyId } = (await engine.inspect(request.scope, request.key)) ?? {}
    expect(await engine.enqueue(ride, request)).toEqual({ type: 'enqueued', keyId, fresh: false })
    expect(await row()).toEqual(before)
    await provider.letGo()
    expect(await running).toMatchObject({ type: 'completed' })
    await expectOneWholeRide(database, provider)
  })

  test('a key whose lease has run out is run by the completer', async () => {
    const engine = engineOf()
    await provider.willMeet('refuse_500')
    expect(await engine.execute(ride, request)).toMatchObject({ type: 'retry_later' })
    const before = await row()
    expect(await engine.enqueue(ride, request)).toMatchObject({ type: 'enqueued', fresh: false })
    expect(await row()).toEqual(before)
  })

  test('many times at once, a key is one row, and one of the calls reports it as fresh', async () => {
    const engine = engineOf()
    const outcomes = await Promise.all(Array.from({ length: 30 }, () => engine.enqueue(ride, request)))
    expect(outcomes.filter(({ type }) => type !== 'enqueued')).toEqual([])
    expect(outcomes.filter((outcome) => outcome.type === 'enqueued' && outcome.fresh)).toHaveLength(1)
    expect(await database.rows('SELECT FROM pawl.idempotency_keys')).toHaveLength(1)
  })

  test('a finished key replays its response', async () => {
    const engine = engineOf()
    const done = await engine.execute(ride, request)
    const replayed = await engine.enqueue(ride, request)
    expect(replayed).toEqual({ ...done, type: 'replayed' })
  })

  // Shows I12.
  test('with other input or another pipeline, a key is a mismatch', async () => {
    const other = pipeline<{ amount: number }>({ name: 'other', version: 1 }).finish(() => respond(200))
    const engine = engineOf(database.pool(), [ride, other])
    await engine.enqueue(ride, request)
    const before = await row()
    expect(await engine.enqueue(ride, { ...request, input: { amount: 1 } })).toEqual({
      type: 'mismatch',
      differs: 'request',
    })
    expect(await engine.enqueue(other, request)).toEqual({ type: 'mismatch', differs: 'pipeline' })
    expect(await row()).toEqual(before)
  })

  test('a key is refused under a definition that this engine does not have', async () => {
    const [older, newer] = ([1, 2] as const).map((version) =>
      pipeline<{ amount: number }>({ name: 'moving', version }).finish(() => respond(200)),
    ) as [typeof ride, typeof ride]
    await engineOf(database.pool(), [older]).enqueue(older, request)
    const before = await row()
    expect(await engineOf(database.pool(), [newer]).enqueue(newer, request)).toMatchObject({
      type: 'refused',
      pipeline: 'moving',
      version: 1,
    })
    expect(await row()).toEqual(before)
  })
})

describe('nothing is enqueued', () => {
  const Input = z.object({ amount: z.number().max(10) })
  const strict = pipeline({ name: 'strict', version: 1, input: Input }).finish(() => respond(200))

  test('if the input is not valid', async () => {
    const engine = createEngine({ pool: database.pool(), pipelines: [strict], schema: database.schema })
    onTestFinished(() => engine.close())
    await expect(engine.enqueue(strict, request)).rejects.toBeInstanceOf(InvalidInputError)
    expect(await row()).toBeUndefined()
  })

  test('if the pipeline is not registered, or the request is malformed', async () => {
    const engine = engineOf()
    await expect(engine.enqueue(strict, { ...request, input: { amount: 1 } })).rejects.toMatchObject({
      code: 'PAWL_NOT_REGISTERED',
    })
    const mistyped = { ...request, fingerprnt: 1 } as typeof request
    await expect(engine.enqueue(ride, mistyped)).rejects.toThrow(/^enqueue: unknown option 'fingerprnt'/)
    await expect(engine.enqueue(ride, { ...request, key: '' })).rejects.toThrow(/^enqueue: /)
    expect(await row()).toBeUndefined()
  })

  test('while the database is unavailable, or the engine is closing', async () => {
    const pool = new pg.Pool({ connectionString: 'postgresql://nobody@127.0.0.1:1/nothing' })
    onTestFinished(() => pool.end())
    expect(await engineOf(pool).enqueue(ride, request)).toMatchObject({ type: 'unavailable' })
    const closed = engineOf()
    await closed.close()
    expect(await closed.enqueue(ride, request)).toMatchObject({
      type: 'unavailable',
      error: { code: 'PAWL_CLOSING' },
    })
    expect(await row()).toBeUndefined()
  })
})

test.each(['answer_lost', 'statement_lost'] as const)(
  'after %s at the INSERT, the key is enqueued once',
  async (fault) => {
    const proxy = await PostgresProxy.start(database.url)
    onTestFinished(() => proxy.close())
    const pool = database.pool({ connectionString: proxy.url, connectionTimeoutMillis: 1_000 })
    const engine = engineOf(pool)
    const enqueued = hear('pawl:enqueued')
    const struck = proxy.armStatement('ON CONFLICT (scope, key) DO NOTHING', fault)
    expect(await engine.enqueue(ride, request)).toMatchObject({ type: 'enqueued', fresh: true })
    await struck
    expect(enqueued).toHaveLength(1)
    expect(await database.rows('SELECT fence, attempts, lease_until FROM pawl.idempotency_keys')).toEqual([
      { fence: '1', attempts: 0, lease_until: null },
    ])
    expect(await engine.enqueue(ride, request)).toMatchObject({ type: 'enqueued', fresh: false })
    expect((await completerOf(engine).runOnce()).completer).toMatchObject({ found: 1, completed: 1 })
    await expectOneWholeRide(database, provider)
  },
)

const strictOf = (input: z.ZodType<{ amount: number }>) =>
  pipeline({ name: 'strict', version: 1, input }).finish(() => respond(200))

test('a key whose input would no longer validate is left as it is, however often it is enqueued', async () => {
  const loose = strictOf(z.object({ amount: z.number() }))
  const tight = strictOf(z.object({ amount: z.number().max(1) }))
  const here = (pipelines: [typeof loose]) => {
    const engine = createEngine({ pool: database.pool(), pipelines, schema: database.schema })
    onTestFinished(() => engine.close())
    return engine
  }
  expect(await here([loose]).enqueue(loose, request)).toMatchObject({ type: 'enqueued', fresh: true })
  const before = await row()
  const later = here([tight])
  for (let n = 0; n < 2; n++) {
    expect(await later.enqueue(tight, request)).toMatchObject({ type: 'enqueued', fresh: false })
  }
  expect(await row()).toEqual(before)
  await expect(later.enqueue(tight, { ...request, key: 'fresh' })).rejects.toBeInstanceOf(InvalidInputError)
})
