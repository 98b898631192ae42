import { randomBytes, randomUUID } from 'node:crypto'
import { createOperator, type Engine, type Pipeline, respond, respondBytes } from '@pawl/core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { columnsWith } from './dump.js'
import { createEngine, pipeline, protect, SECRET } from './secret-ride.js'

let database: TestDatabase
beforeAll(async () => {
  database = await TestDatabase.create()
})
afterAll(() => database.drop())

const because = { actor: 'anna', reason: 'a test' }

function engineOf<Input>(target: Pipeline<object, Input>, caps: object = {}): Engine<object> {
  const engine = createEngine({
    pool: database.pool(),
    schema: database.schema,
    pipelines: [target],
    protect,
    caps,
  })
  onTestFinished(() => engine.close())
  return engine
}

/** A call that ignores its signal, and ends once its request has been answered. */
async function endsLate(
  guarantee: 'keyed' | 'at_most_once',
  end: () => { readonly id: string },
): Promise<{ readonly key: string; readonly target: Pipeline<object, null> }> {
  const letGo = gate()
  const target = pipeline<null>({ name: `late-${guarantee}`, version: 1, callTimeoutMs: 50 })
    .foreign('called', {
      guarantee,
      call: async () => {
        await letGo.opened
        return end()
      },
      settle: ({ result }) => ({ found: result.id }),
    })
    .finish(() => respond(204))
  const engine = engineOf(target)
  const key = randomUUID()
  const outcome = await engine.execute(target, { scope: 's', key, input: null })
  expect(outcome.type).toBe(guarantee === 'keyed' ? 'retry_later' : 'stuck')
  letGo.open()
  // It waits for what goes on after executions have answered.
  await engine.close()
  return { key, target }
}

const throwing = () => {
  throw new Error(`no answer about ${SECRET}`)
}

describe('a call that ends after its key was given up', () => {
  // Shows I17.
  test.each(['keyed', 'at_most_once'] as const)('leaves its result sealed (%s)', async (guarantee) => {
    const { key, target } = await endsLate(guarantee, () => ({ id: SECRET }))
    expect(await columnsWith(database, SECRET)).toEqual([])
    const operator = createOperator({ pool: database.pool(), schema: database.schema, protect })
    expect(await operator.show({ scope: 's', key })).toMatchObject({
      key: { call: { phase: 'called', known: 'returned', result: { id: SECRET } }, sealed: null },
    })
    if (guarantee === 'at_most_once') await operator.unstick({ scope: 's', key }, because)
    // It is settled with that result, and the call is not made again.
    expect(await engineOf(target).execute(target, { scope: 's', key, input: null })).toMatchObject({
      type: 'completed',
    })
    expect(await columnsWith(database, SECRET)).toEqual([])
  })

  test.each(['keyed', 'at_most_once'] as const)('leaves its error sealed (%s)', async (guarantee) => {
    const { key, target } = await endsLate(guarantee, throwing)
    expect(await columnsWith(database, SECRET)).toEqual([])
    expect(await engineOf(target).inspect('s', key)).toMatchObject({
      lastError: expect.stringContaining(SECRET) as string,
    })
  })
})

test('the state that is written together with the response is sealed', async () => {
  const target = pipeline<null>({ name: 'together', version: 1, commits: 'fewest' })
    .local('noted', () => ({ kept: SECRET }))
    .finish(() => respond(204))
  const engine = engineOf(target)
  const request = { scope: 's', key: randomUUID(), input: null }
  expect(await engine.execute(target, request)).toMatchObject({ type: 'completed' })
  expect(await columnsWith(database, SECRET)).toEqual([])
  expect((await engine.inspect('s', request.key))?.state).toEqual({ kept: SECRET })
})

test('the state that an upgrade makes is sealed', async () => {
  const older = pipeline<null>({ name: 'upgraded', version: 1 })
    .local('noted', () => ({ kept: SECRET }))
    .local('failed', throwing)
    .finish(() => respond(204))
  const newer = pipeline<null>({
    name: 'upgraded',
    version: 2,
    upgradesFrom: [{ version: 1, state: ({ kept }) => ({ kept: { again: kept ?? null } }) }],
  })
    .local('noted', () => ({ kept: { again: SECRET as unknown as null } }))
    .local('failed', throwing)
    .finish(({ state }) => respond(200, state.kept))
  const request = { scope: 's', key: randomUUID(), input: null }
  await engineOf(older).execute(older, request)
  const [before] = await database.rows('SELECT state FROM pawl.idempotency_keys WHERE key = $1', [
    request.key,
  ])
  const engine = engineOf(newer)
  expect(await engine.execute(newer, request)).toMatchObject({ type: 'retry_later' })
  expect(await columnsWith(database, SECRET)).toEqual([])
  expect((await engine.inspect('s', request.key))?.state).toEqual({ kept: { again: SECRET } })
  expect(before).not.toEqual(
    (await database.rows('SELECT state FROM pawl.idempotency_keys WHERE key = $1', [request.key]))[0],
  )
})

test('values of a mebibyte each fit under caps of just that size, and are as they were', async () => {
  const bytes = 1_048_576
  // With its quotes, each is as long as its cap.
  const text = randomBytes(bytes)
    .toString('base64')
    .slice(0, bytes - 2)
  const body = randomBytes(bytes)
  const large = pipeline<string>({ name: 'large', version: 1 })
    .local('kept', ({ input }) => ({ a: input.slice(0, bytes - '{"a":""}'.length) }))
    .foreign('called', { call: ({ input }) => input, settle: () => ({}) })
    .finish(() => respondBytes(200, body, { headers: { 'content-type': 'image/png' } }))
  const caps = { inputBytes: bytes, stateBytes: bytes, resultBytes: bytes, responseBytes: bytes }
  const request = { scope: 's', key: randomUUID(), input: text }
  const first = await engineOf(large, caps).execute(large, request)
  if (first.type !== 'completed') throw new Error(first.type)
  expect(first.response.body.equals(body)).toBe(true)
  const engine = engineOf(large, caps)
  const again = await engine.execute(large, request)
  if (again.type !== 'replayed') throw new Error(again.type)
  expect(again.response.body.equals(body)).toBe(true)
  expect(again.response.headers).toEqual(first.response.headers)
  const { input, state } = (await engine.inspect('s', request.key)) ?? {}
  expect(input === text).toBe(true)
  expect(state).toEqual({ a: text.slice(0, bytes - '{"a":""}'.length) })
  const [row] = await database.rows<{ plain: boolean }>(
    `SELECT position($2::bytea IN response_body) > 0 AS plain FROM pawl.idempotency_keys WHERE key = $1`,
    [request.key, body.subarray(0, 32)],
  )
  expect(row).toEqual({ plain: false })
})
