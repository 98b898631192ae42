import { type Engine, type JsonValue, respond } from '@pawl/core'
import * as v from 'valibot'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { dieAt } from '../support/die-at.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let engines: Engine<Database>[]

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  engines = []
})
afterEach(async () => {
  await Promise.all(engines.map((engine) => engine.close()))
  await database.drop()
})

type EnginePipelines = Parameters<typeof createEngine>[0]['pipelines']

function engineOf(...pipelines: EnginePipelines): Engine<Database> {
  const engine = createEngine({ pool: database.pool(), pipelines, schema: database.schema })
  engines.push(engine)
  return engine
}

const parse = (json: string) => JSON.parse(json) as never

describe.each([
  {
    library: 'zod',
    first: z.object({ amount: z.number().int(), currency: z.string().default('EUR') }),
    stricter: z.object({ amount: z.number().int().max(10), currency: z.string() }),
  },
  {
    library: 'valibot',
    first: v.object({ amount: v.pipe(v.number(), v.integer()), currency: v.optional(v.string(), 'EUR') }),
    stricter: v.object({ amount: v.pipe(v.number(), v.integer(), v.maxValue(10)), currency: v.string() }),
  },
])('a schema of $library', ({ first, stricter }) => {
  const withSchema = (input: typeof first) =>
    pipeline({ name: 'schema', version: 1, input })
      .local('seen', () => undefined)
      .finish(({ input: seen }) => respond(200, seen))

  test('checks the input before anything is reserved, and says where it is wrong', async () => {
    const target = withSchema(first)
    const engine = engineOf(target)
    const invalid = { amount: 'ten', currency: 5 } as unknown as { amount: number }
    await expect(engine.execute(target, { scope: 's', key: 'k', input: invalid })).rejects.toMatchObject({
      name: 'InvalidInputError',
      code: 'PAWL_INVALID_INPUT',
      issues: [{ path: 'amount' }, { path: 'currency' }],
    })
    expect(await database.rows('SELECT * FROM pawl.idempotency_keys')).toEqual([])
  })

  test('passes its defaults to the phases, and stores them in the row', async () => {
    const target = withSchema(first)
    const outcome = await engineOf(target).execute(target, { scope: 's', key: 'k', input: { amount: 3 } })
    if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
    expect(JSON.parse(outcome.response.body.toString())).toEqual({ amount: 3, currency: 'EUR' })
    expect(await database.rows('SELECT input FROM pawl.idempotency_keys')).toEqual([
      { input: { amount: 3, currency: 'EUR' } },
    ])
  })

  test('checks a stored input again when the key is resumed, and does not run what it refuses', async () => {
    const target = withSchema(first)
    const request = { scope: 's', key: 'k', input: { amount: 30 } }
    await dieAt(database, { pipelines: [target] }, 'finished/begin#1:before', async (engine) =>
      engine.execute(target, request),
    )
    const narrowed = withSchema(stricter as unknown as typeof first)
    const [row] = await database.rows<{ id: string }>('SELECT id FROM pawl.idempotency_keys')
    const resumed = await engineOf(narrowed).resume(row?.id ?? '')
    expect(resumed).toMatchObject({
      type: 'retry_later',
      reason: 'unknown_error',
      recoveryPoint: 'seen',
      error: { code: 'PAWL_STORED_INPUT_REJECTED' },
    })
    expect(await engineOf(target).execute(target, request)).toMatchObject({ type: 'completed' })
  })

  test('still replays what it would refuse since it became stricter, and refuses that in new requests', async () => {
    const target = withSchema(first)
    const request = { scope: 's', key: 'k', input: { amount: 30 } }
    const done = await engineOf(target).execute(target, request)
    if (done.type !== 'completed') throw new Error(`unexpected ${done.type}`)
    const narrowed = withSchema(stricter as unknown as typeof first)
    const engine = engineOf(narrowed)
    expect(await engine.execute(narrowed, request)).toMatchObject({
      type: 'replayed',
      response: done.response,
    })
    const other = { ...request, input: { amount: 40 } }
    expect(await engine.execute(narrowed, other)).toMatchObject({ type: 'mismatch' })
    await expect(engine.execute(narrowed, { ...request, key: 'new' })).rejects.toMatchObject({
      code: 'PAWL_INVALID_INPUT',
    })
  })

  test('does not turn retries into mismatches when it gains a default', async () => {
    const target = withSchema(first)
    const request = { scope: 's', key: 'k', input: { amount: 7 } }
    await engineOf(target).execute(target, request)
    const grown = pipeline({
      name: 'schema',
      version: 1,
      input: z.object({ amount: z.number(), tip: z.number().default(1) }),
    })
      .local('seen', () => undefined)
      .finish(() => respond(200))
    expect(await engineOf(grown).execute(grown, request)).toMatchObject({ type: 'replayed' })
  })
})

test('a schema that refuses its own output is named before anything is reserved', async () => {
  const target = pipeline({
    name: 'one_way',
    version: 1,
    input: z.string().transform((text) => text.length),
  }).finish(() => respond(200))
  await expect(
    engineOf(target).execute(target, { scope: 's', key: 'k', input: 'four' }),
  ).rejects.toMatchObject({
    code: 'PAWL_INVALID_INPUT',
    message: expect.stringContaining('does not accept its own output') as string,
  })
  expect(await database.rows('SELECT * FROM pawl.idempotency_keys')).toEqual([])
})

describe('two requests', () => {
  const target = pipeline({ name: 'same', version: 1 }).finish(() => respond(200))

  async function second(first: JsonValue, other: JsonValue): Promise<string> {
    const engine = engineOf(target)
    await engine.execute(target, { scope: 's', key: 'k', input: first })
    return (await engine.execute(target, { scope: 's', key: 'k', input: other })).type
  }

  test.each([
    ['order of keys', '{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}'],
    ['spelling of numbers', '{"n":[100,1,0.5,0]}', '{"n":[1e2,1.0,5e-1,-0]}'],
    ['spelling of text', '"\\u0061\\/"', '"a/"'],
    ['white space', '[1,2]', ' [ 1 , 2 ] '],
  ])('that differ in the %s only are the same', async (_, first, other) => {
    expect(await second(parse(first), parse(other))).toBe('replayed')
  })

  test.each([
    ['the order of a list', '[1,2]', '[2,1]'],
    ['a number and its text', '1', '"1"'],
    ['null and absence', '{"a":null}', '{}'],
    ['what __proto__ holds', '{"__proto__":{"a":1}}', '{"__proto__":{"a":2}}'],
    ['having a __proto__', '{"__proto__":{}}', '{}'],
    ['a lone surrogate', '"\\ud800"', '"\\ud801"'],
    ['normal forms of text', '"e\\u0301"', '"\\u00e9"'],
    ['digits that matter', '9007199254740993', '9007199254740994.5'],
  ])('that differ in %s are a mismatch', async (_, first, other) => {
    expect(await second(parse(first), parse(other))).toBe('mismatch')
  })

  test('are compared by nothing but the fingerprint of their pipeline, where it has one', async () => {
    const counting = pipeline<{ id: number; sentAt: string }>({
      name: 'counting',
      version: 1,
      fingerprint: ({ id }) => id,
    }).finish(({ input }) => respond(200, input.sentAt))
    const engine = engineOf(counting)
    const send = async (id: number, sentAt: string) =>
      engine.execute(counting, { scope: 's', key: 'k', input: { id, sentAt } })
    expect(await send(1, 'monday')).toMatchObject({ type: 'completed' })
    expect(await send(1, 'tuesday')).toMatchObject({ type: 'replayed' })
    expect(await send(2, 'monday')).toMatchObject({ type: 'mismatch' })
  })

  test('are compared by their own fingerprints first, and bytes never equal JSON', async () => {
    const engine = engineOf(target)
    const send = async (fingerprint: JsonValue | Uint8Array, input: JsonValue) =>
      engine.execute(target, { scope: 's', key: 'k', input, fingerprint })
    expect(await send(Buffer.from('{"a":1}'), 1)).toMatchObject({ type: 'completed' })
    expect(await send(new TextEncoder().encode('{"a":1}'), 2)).toMatchObject({ type: 'replayed' })
    expect(await send({ a: 1 }, 1)).toMatchObject({ type: 'mismatch' })
    expect(await send(Buffer.from('{"a": 1}'), 1)).toMatchObject({ type: 'mismatch' })
  })

  test('with input that the fingerprint cannot read fail as invalid input, and not as a broken fingerprint', async () => {
    const reading = pipeline({
      name: 'reading',
      version: 1,
      input: z.object({ order: z.object({ id: z.string() }) }),
      fingerprint: ({ order }) => order.id,
    }).finish(() => respond(200))
    const input = {} as unknown as { order: { id: string } }
    await expect(engineOf(reading).execute(reading, { scope: 's', key: 'k', input })).rejects.toMatchObject({
      code: 'PAWL_INVALID_INPUT',
    })
  })
})
