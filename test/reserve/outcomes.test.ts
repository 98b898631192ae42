import { randomUUID } from 'node:crypto'
import { type PipelineSettings, respond, retryLater } from '@pawl/core'
import pg from 'pg'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables, pipeline } from '../support/rides.js'
import { gate, hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { expectOneWholeRide } from '../support/whole-ride.js'

let database: TestDatabase
let provider: Provider

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
})
afterEach(() => database.drop())

const REQUEST = { scope: 's', key: 'k', input: null }
const keys = () => database.rows('SELECT * FROM pawl.idempotency_keys ORDER BY scope, key')
const audit = () => database.rows('SELECT what FROM audit')

function scripted(answers: (() => unknown)[], settings: PipelineSettings = {}) {
  const target = pipeline({ name: 'scripted', version: 1, ...settings })
    .local('written', async ({ tx }) => {
      await tx.insertInto('audit').values({ what: 'written' }).execute()
    })
    .finish(() => (answers.shift() ?? (() => respond(201)))() as ReturnType<typeof respond>)
  const engine = () => createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
  return { target, engine }
}

test.each(['running', 'finished', 'stuck'] as const)(
  'another request or pipeline under a %s key is a mismatch, and changes nothing',
  async (status) => {
    const first = pipeline<{ a: number }>({ name: 'first', version: 1, maxAttempts: 1 }).finish(() => {
      if (status === 'running') return retryLater()
      if (status === 'finished') return respond(200)
      throw new Error('stuck at once')
    })
    let ran = 0
    const second = pipeline<{ a: number }>({ name: 'second', version: 1 }).finish(() => {
      ran++
      return respond(200)
    })
    const engine = createEngine({
      pool: database.pool(),
      pipelines: [first, second],
      schema: database.schema,
    })
    await engine.execute(first, { scope: 's', key: 'k', input: { a: 1 } })
    const before = await keys()
    expect(before).toMatchObject([{ status }])
    expect(await engine.execute(first, { scope: 's', key: 'k', input: { a: 2 } })).toEqual({
      type: 'mismatch',
      differs: 'request',
    })
    expect(await engine.execute(second, { scope: 's', key: 'k', input: { a: 1 } })).toEqual({
      type: 'mismatch',
      differs: 'pipeline',
    })
    expect(await keys()).toEqual(before)
    expect(ran).toBe(0)
    await engine.close()
  },
)

test('one key in two scopes is two requests, each with its own provider key', async () => {
  const createRide = createRideOf(provider)
  const engine = createEngine({ pool: database.pool(), pipelines: [createRide], schema: database.schema })
  const key = randomUUID()
  for (const scope of ['ann', 'bob']) {
    const outcome = await engine.execute(createRide, { scope, key, input: { amount: 3 } })
    expect(outcome).toMatchObject({ type: 'completed' })
  }
  expect(await keys()).toMatchObject([{ scope: 'ann' }, { scope: 'bob' }])
  const sent = await provider.requests()
  expect(new Set(sent.map((request) => request.key)).size).toBe(2)
  expect(await provider.ledger()).toHaveLength(2)
  await engine.close()
})

test.each([500, 503, 599, 408, 425, 429])(
  'a response of %i is sent and not stored; its phase is rolled back, and a retry resumes there',
  async (status) => {
    const turns = [status, 201]
    const answering = pipeline({ name: 'answering', version: 1 })
      .local('first', async ({ tx }) => {
        await tx.insertInto('audit').values({ what: 'first' }).execute()
      })
      .local('second', async ({ tx }) => {
        await tx.insertInto('audit').values({ what: 'second' }).execute()
        const turn = turns.shift() ?? 201
        return turn === 201 ? undefined : respond(turn, { sorry: true }, { headers: { 'retry-after': '1' } })
      })
      .finish(() => respond(201, { done: true }))
    const running = createEngine({ pool: database.pool(), pipelines: [answering], schema: database.schema })
    const failed = await running.execute(answering, REQUEST)
    if (failed.type !== 'retry_later') throw new Error(`unexpected ${failed.type}`)
    expect(failed).toMatchObject({ reason: 'asked_by_phase', recoveryPoint: 'first', response: { status } })
    expect(failed.response?.body.toString()).toBe('{"sorry":true}')
    expect(await audit()).toEqual([{ what: 'first' }])
    expect(await keys()).toMatchObject([{ status: 'running', response_status: null, lease_until: null }])
    const done = await running.execute(answering, REQUEST)
    expect(done).toMatchObject({ type: 'completed', response: { status: 201 } })
    expect(await audit()).toHaveLength(2)
    await running.close()
  },
)

test.each([200, 303, 400, 404, 409, 422, 451])(
  'a response of %i in the middle is stored with the rows of its phase, and ends the request',
  async (status) => {
    let later = 0
    const ending = pipeline({ name: 'ending', version: 1 })
      .local('ended', async ({ tx }) => {
        await tx.insertInto('audit').values({ what: 'ended' }).execute()
        return respond(status, { why: 'so' })
      })
      .finish(() => {
        later++
        return respond(201)
      })
    const engine = createEngine({ pool: database.pool(), pipelines: [ending], schema: database.schema })
    const first = await engine.execute(ending, REQUEST)
    const again = await engine.execute(ending, REQUEST)
    if (first.type !== 'completed' || again.type !== 'replayed') throw new Error('not ended')
    expect(first.response.status).toBe(status)
    expect(again.response).toEqual(first.response)
    expect(await audit()).toEqual([{ what: 'ended' }])
    expect(later).toBe(0)
    await engine.close()
  },
)

test('retryLater gives the key back at once, so that a retry waits neither for the lease nor for the back-off', async () => {
  const error = new Error('not yet')
  const { target, engine } = scripted([() => retryLater(error, { afterMs: 90_000 })])
  const running = engine()
  expect(await running.execute(target, REQUEST)).toMatchObject({
    type: 'retry_later',
    reason: 'asked_by_phase',
    retryAfterMs: 90_000,
    recoveryPoint: 'written',
    error,
    response: null,
  })
  const [row] = await database.rows<{ lease_until: null; rest: number }>(
    `SELECT lease_until, extract(epoch FROM run_after - updated_at)::float AS rest FROM pawl.idempotency_keys`,
  )
  expect(row?.lease_until).toBeNull()
  expect(row?.rest).toBeCloseTo(90, 1)
  expect(await running.execute(target, REQUEST)).toMatchObject({ type: 'completed' })
  expect(await audit()).toHaveLength(1)
  await running.close()
})

test('a duplicate of a running request is told how long the lease still lasts, and changes nothing', async () => {
  const [entered, leave] = [gate(), gate()]
  const slow = pipeline({ name: 'slow', version: 1, leaseMs: 20_000 }).finish(async () => {
    entered.open()
    await leave.opened
    return respond(200)
  })
  const engine = createEngine({ pool: database.pool(), pipelines: [slow], schema: database.schema })
  const first = engine.execute(slow, REQUEST)
  await entered.opened
  const before = await keys()
  const second = await engine.execute(slow, REQUEST)
  if (second.type !== 'in_flight') throw new Error(`unexpected ${second.type}`)
  expect(second.fencedOff).toBe(false)
  expect(second.retryAfterMs).toBeGreaterThan(0)
  expect(second.retryAfterMs).toBeLessThanOrEqual(20_000)
  expect(await keys()).toEqual(before)
  leave.open()
  expect(await first).toMatchObject({ type: 'completed' })
  await engine.close()
})

test('a take-over raises the fence by one, and has a holder of its own', async () => {
  const { target, engine } = scripted([() => retryLater()])
  const running = engine()
  await running.execute(target, REQUEST)
  const [before] = await database.rows<{ holder: string; fence: string }>(
    'SELECT * FROM pawl.idempotency_keys',
  )
  await running.execute(target, REQUEST)
  const [after] = await database.rows<{ holder: string; fence: string }>(
    'SELECT * FROM pawl.idempotency_keys',
  )
  expect([before?.fence, after?.fence]).toEqual(['1', '2'])
  expect(after?.holder).not.toBe(before?.holder)
  await running.close()
})

test('resume needs nothing but the id, and says when there is no such key', async () => {
  await provider.willMeet('refuse_500')
  const createRide = createRideOf(provider)
  const engine = createEngine({ pool: database.pool(), pipelines: [createRide], schema: database.schema })
  const failed = await engine.execute(createRide, { scope: 'rider', key: randomUUID(), input: { amount: 2 } })
  if (failed.type !== 'retry_later') throw new Error(`unexpected ${failed.type}`)
  expect(await engine.resume(failed.keyId)).toMatchObject({ type: 'completed', response: { status: 201 } })
  expect(await engine.resume(failed.keyId)).toMatchObject({ type: 'replayed' })
  expect(await engine.resume(randomUUID())).toEqual({ type: 'gone' })
  await expect(engine.resume('no id')).rejects.toMatchObject({ code: 'PAWL_INVALID_REQUEST' })
  await expectOneWholeRide(database, provider)
  await engine.close()
})

test('when the database cannot be reached, the outcome is unavailable, it is announced, and no user code runs', async () => {
  const { target } = scripted([])
  const pool = new pg.Pool({ connectionString: 'postgresql://nobody@127.0.0.1:1/nothing' })
  const engine = createEngine({ pool, pipelines: [target], schema: database.schema })
  const announced = hear('pawl:unavailable')
  const outcome = await engine.execute(target, REQUEST)
  expect(outcome).toMatchObject({ type: 'unavailable', error: { code: 'PAWL_NO_CONNECTION' } })
  expect(announced).toHaveLength(1)
  await engine.close()
  await pool.end()
})

test('a schema without tables is reported as wrong use, by name', async () => {
  const { target } = scripted([])
  const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: 'not_migrated' })
  await expect(engine.execute(target, REQUEST)).rejects.toMatchObject({
    code: 'PAWL_NOT_MIGRATED',
    message: expect.stringContaining("'not_migrated'") as string,
  })
  await engine.close()
})

test('a closed engine takes no new work', async () => {
  const { target, engine } = scripted([])
  const running = engine()
  await running.close()
  expect(await running.execute(target, REQUEST)).toMatchObject({
    type: 'unavailable',
    error: { code: 'PAWL_CLOSING' },
  })
  expect(await keys()).toEqual([])
})
