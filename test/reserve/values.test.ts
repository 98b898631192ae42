import { type EngineOptions, type JsonValue, type Pipeline, respond, respondBytes } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
})
afterEach(() => database.drop())

const REQUEST = { scope: 's', key: 'k' }

async function run<Input>(
  target: Pipeline<Database, Input>,
  input: Input,
  options: Partial<EngineOptions<Database>> = {},
) {
  const engine = createEngine({
    pool: database.pool(),
    pipelines: [target],
    schema: database.schema,
    ...options,
  })
  try {
    return await engine.execute(target, { ...REQUEST, input })
  } finally {
    await engine.close()
  }
}

/** Passes its input through state into the response, after a resume, so that everything is read back from the row. */
function echo() {
  let runs = 0
  const target = pipeline({ name: 'echo', version: 1 })
    .local('kept', ({ input }) => ({ kept: input }))
    .finish(({ input, state }) => {
      if (runs++ === 0) throw new Error('once more, from what is stored')
      return respond(200, { input, state: state.kept })
    })
  return async (value: JsonValue, options: Partial<EngineOptions<Database>> = {}) => {
    expect(await run(target, value, options)).toMatchObject({ reason: 'unknown_error' })
    const outcome = await run(target, value, options)
    if (outcome.type !== 'completed') throw new Error(`unexpected ${outcome.type}`)
    const replay = await run(target, value, options)
    if (replay.type !== 'replayed') throw new Error(`unexpected ${replay.type}`)
    expect(replay.response).toEqual(outcome.response)
    return JSON.parse(outcome.response.body.toString()) as { input: JsonValue; state: JsonValue }
  }
}

const nested = (depth: number): JsonValue => {
  let value: JsonValue = 'bottom'
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { in: value }
  return value
}

describe('scope and key', () => {
  const target = pipeline({ name: 'named', version: 1 }).finish(() => respond(204))

  test.each([
    ['a NUL', 'a\0b'],
    ['a lone surrogate', 'a\ud800b'],
    ['nothing', ''],
    ['256 characters', 'a'.repeat(256)],
    ['a number', 7 as unknown as string],
    ['null', null as unknown as string],
  ])('with %s are refused before anything is written', async (_, name) => {
    const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
    const refusal = { code: 'PAWL_INVALID_REQUEST' }
    const request = { scope: 's', key: 'k', input: null }
    await expect(engine.execute(target, { ...request, scope: name })).rejects.toMatchObject(refusal)
    await expect(engine.execute(target, { ...request, key: name })).rejects.toMatchObject(refusal)
    expect(await database.rows('SELECT * FROM pawl.idempotency_keys')).toEqual([])
    await engine.close()
  })

  test.each(['a'.repeat(255), '💳'.repeat(127), ' a "b" \\ \n', 'ﬀ', "'; DROP TABLE x --"])(
    'with any other text are kept and told apart',
    async (name) => {
      const engine = createEngine({ pool: database.pool(), pipelines: [target], schema: database.schema })
      expect(await engine.execute(target, { scope: name, key: name, input: null })).toMatchObject({
        type: 'completed',
      })
      const other = { scope: name, key: name.toUpperCase() + name.slice(1), input: null }
      expect((await engine.inspect(name, name))?.scope).toBe(name)
      if (other.key !== name && other.key.length <= 255) {
        expect(await engine.execute(target, other)).toMatchObject({ type: 'completed' })
      }
      await engine.close()
    },
  )
})

describe('input, state and response', () => {
  test.each([
    ['a NUL and lone surrogates', { text: 'a\0b \ud800 \udfff', '\0key\ud83d': 1 }],
    ['numbers at the edges', [0, -1, 1e21, 5e-324, 1.7976931348623157e308, 2 ** 53, 0.1 + 0.2]],
    ['a __proto__ key', JSON.parse('{"__proto__": {"admin": true}, "constructor": 1}') as JsonValue],
    ['keys in an order that jsonb would change', { b: 1, a: 2, 10: 3, 9: 4, aa: { z: 1, y: [] } }],
    ['deep nesting', nested(250)],
    ['every kind of text', 'line\u2028sep \ufeff \u007f \u0001 💳 e\u0301'],
    ['nothing', null],
  ] as [string, JsonValue][])('keep %s exactly, through the database', async (_, value) => {
    const { input, state } = await echo()(value)
    expect(JSON.stringify(input)).toBe(JSON.stringify(value))
    expect(JSON.stringify(state)).toBe(JSON.stringify(value))
    expect(Object.getOwnPropertyNames(Object.prototype)).not.toContain('admin')
  })

  test.each([
    ['nesting without end', nested(300), /nested deeper than 256/],
    ['a Date', { at: [new Date(0)] }, /\.at\[0\] is a Date/],
    ['NaN', { n: Number.NaN }, /\.n is NaN/],
    ['a bigint', { list: [1, { n: 1n }] }, /\.list\[1\]\.n is a bigint/],
    ['undefined in a list', [undefined], /\[0\] is undefined/],
    ['a Map', { m: new Map() }, /\.m is a Map/],
    ['a function', { f: () => 1 }, /\.f is a function/],
  ])('refuse %s, and say where', async (_, value, problem) => {
    const target = pipeline({ name: 'strict', version: 1 })
      .local('made', () => ({ made: value as JsonValue }))
      .finish(() => respond(200))
    await expect(run(target, value as JsonValue)).rejects.toMatchObject({
      code: 'PAWL_NOT_JSON',
      message: expect.stringMatching(problem) as string,
    })
    expect(await database.rows('SELECT * FROM pawl.idempotency_keys')).toEqual([])
    const outcome = await run(target, null)
    if (outcome.type !== 'retry_later') throw new Error(`unexpected ${outcome.type}`)
    const { message, code } = outcome.error as { message: string; code: string }
    expect(code).toBe('PAWL_NOT_JSON')
    expect(message).toMatch(problem)
    expect(message).toContain("phase 'made' of pipeline 'strict'")
  })

  test('a state may have a member of any name', async () => {
    const target = pipeline<null>({ name: 'named', version: 1 })
      .local('one', () => ({ toString: 'one' }))
      .local('two', () => JSON.parse('{"__proto__":{"two":2},"constructor":3}') as { constructor: number })
      .finish(({ state }) => respond(200, Object.entries(state)))
    const outcome = await run(target, null)
    expect(outcome).toMatchObject({ type: 'completed' })
    const body = outcome.type === 'completed' ? outcome.response.body.toString() : ''
    expect(JSON.parse(body)).toEqual([
      ['toString', 'one'],
      ['__proto__', { two: 2 }],
      ['constructor', 3],
    ])
  })

  test('a function of a phase that changes its input or state changes its own copy', async () => {
    type Nested = { list: { seen: string[] }[] }
    const spoil = ({ list }: Nested) => {
      const seen = list[0]?.seen.slice() ?? []
      list[0]?.seen.push('spoilt')
      list.push({ seen: [] })
      return [list.length, ...seen].join()
    }
    const seen: string[] = []
    const look = (context: { readonly input: Nested; readonly state: object }) => {
      seen.push(spoil(context.input), spoil((context.state as { nested: Nested }).nested))
    }
    const target = pipeline<Nested>({ name: 'spoilt', version: 1 })
      .local('one', ({ input }) => ({ nested: input }))
      .local('two', look, { when: (context) => (look(context), true) })
      .foreign('three', { call: look, settle: look })
      .finish((context) => {
        look(context)
        return respond(200, { input: context.input.list.length })
      })
    const outcome = await run(target, { list: [{ seen: ['as it was'] }] })
    expect(outcome.type).toBe('completed')
    expect(seen).toEqual(Array.from({ length: 10 }, () => '2,as it was'))
  })

  test('over their caps are refused, with an error that names the cap and the phase', async () => {
    const caps = { inputBytes: 100, stateBytes: 50, responseBytes: 40 }
    const big = pipeline<string>({ name: 'big', version: 1 })
      .local('filled', ({ input }) => ({ filled: input }))
      .finish(({ state }) => respond(200, state.filled))
    await expect(run(big, 'ü'.repeat(50), { caps })).rejects.toMatchObject({
      code: 'PAWL_TOO_LARGE',
      message: expect.stringMatching(
        /input of pipeline 'big' is 102 bytes of JSON; the cap is 100/,
      ) as string,
    })
    expect(await run(big, 'x'.repeat(40), { caps })).toMatchObject({
      recoveryPoint: 'started',
      error: {
        code: 'PAWL_TOO_LARGE',
        message: expect.stringMatching(/state after phase 'filled' .* 53 bytes .* cap is 50/) as string,
      },
    })
    await database.rows('DELETE FROM pawl.idempotency_keys')
    expect(await run(big, 'x'.repeat(39), { caps: { ...caps, stateBytes: 100 } })).toMatchObject({
      recoveryPoint: 'filled',
      error: {
        code: 'PAWL_TOO_LARGE',
        message: expect.stringMatching(/response of phase 'finished' .* 41 bytes; the cap is 40/) as string,
      },
    })
  })

  test('a state that later phases would overfill is measured as a whole', async () => {
    const growing = pipeline({ name: 'growing', version: 1 })
      .local('one', () => ({ one: 'x'.repeat(30) }))
      .local('two', () => ({ two: 'x'.repeat(30) }))
      .finish(() => respond(200))
    expect(await run(growing, null, { caps: { stateBytes: 60 } })).toMatchObject({
      recoveryPoint: 'one',
      error: { code: 'PAWL_TOO_LARGE', message: expect.stringContaining("'two'") as string },
    })
  })
})

describe('bodies', () => {
  const everyByte = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))

  test.each([
    ['binary', Buffer.concat([everyByte, everyByte])],
    ['empty', Buffer.alloc(0)],
    ['of two megabytes', Buffer.alloc(2 * 1024 * 1024, everyByte)],
  ])('%s are replayed byte for byte, with status and headers', async (_, body) => {
    const target = pipeline({ name: 'bytes', version: 1 }).finish(() =>
      respondBytes(203, body, { headers: { 'Content-Type': 'application/pdf', ETag: '"é"' } }),
    )
    const first = await run(target, null)
    const again = await run(target, null)
    if (first.type !== 'completed' || again.type !== 'replayed') throw new Error('not stored')
    expect(first.response.headers).toEqual({ 'content-type': 'application/pdf', etag: '"é"' })
    expect(again.response.status).toBe(203)
    expect(again.response.headers).toEqual(first.response.headers)
    expect(first.response.body.equals(body)).toBe(true)
    expect(again.response.body.equals(body)).toBe(true)
  })
})

describe('last_error', () => {
  test.each([
    ['NUL and lone surrogates', 'a\0b\ud800c', 'Error: abc'],
    ['card numbers', 'card 4242 4242-42424242 refused', 'Error: card [number] refused'],
    ['card numbers inside a word', 'pan4242424242424242x', 'Error: pan[number]x'],
    ['card numbers behind a NUL', '4242\u00004242 4242 4242', 'Error: [number]'],
    ['bearer tokens', 'sent Authorization: Bearer eyJh.b-c_d=', 'Error: sent Authorization: [secret]'],
    ['keys of providers', 'key sk_live_51Habc and whsec_99', 'Error: key [key] and [key]'],
    ['passwords in addresses', 'at postgres://me:secret@db/x', 'Error: at postgres://[credentials]@db/x'],
    ['what is longer than its column', 'x'.repeat(3_000), `Error: ${'x'.repeat(1_993)}`],
  ])('is stored without %s', async (_, message, stored) => {
    const target = pipeline({ name: 'failing', version: 1 }).finish(() => {
      throw new Error(message)
    })
    expect(await run(target, null)).toMatchObject({ reason: 'unknown_error' })
    expect(await database.rows('SELECT last_error FROM pawl.idempotency_keys')).toEqual([
      { last_error: stored },
    ])
  })

  test('names code and cause, and is stored whatever is thrown', async () => {
    const thrown: unknown[] = [
      Object.assign(new RangeError('out'), { code: 'E_OUT', cause: new Error('Bearer abc') }),
      'only text',
      { secret: 'sk_live_1' },
      undefined,
    ]
    const target = pipeline({ name: 'throwing', version: 1 }).finish(() => {
      throw thrown.shift()
    })
    const recorded: unknown[] = []
    for (let n = 0; n < 4; n++) {
      expect(await run(target, null)).toMatchObject({ type: 'retry_later', reason: 'unknown_error' })
      const [row] = await database.rows('SELECT last_error FROM pawl.idempotency_keys')
      recorded.push(row?.['last_error'])
    }
    expect(recorded.slice(0, 3)).toEqual([
      'RangeError [E_OUT]: out (cause: Error: Bearer [token])',
      'only text',
      'non-error thrown: object',
    ])
  })
})
