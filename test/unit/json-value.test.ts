import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodeJson } from '../../packages/core/src/pipeline/json-value.js'

const encode = (value: unknown, maxBytes = 1_000_000) => encodeJson(value, { what: 'the value', maxBytes })
const refused = (message: string) =>
  expect.objectContaining({ code: 'PAWL_NOT_JSON', message: expect.stringContaining(message) })

test('a value that can be encoded comes back unchanged', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), (value) => {
      expect(JSON.parse(encode(value))).toEqual(JSON.parse(JSON.stringify(value)))
    }),
  )
})

test('undefined members are left out, and objects without a prototype or of other realms count as plain', () => {
  expect(encode({ a: undefined, b: 1 })).toBe('{"b":1}')
  expect(encode(Object.assign(Object.create(null) as object, { a: 1 }))).toBe('{"a":1}')
  expect(encode(JSON.parse('{"__proto__":{"a":1}}'))).toBe('{"__proto__":{"a":1}}')
})

class Money {
  readonly cents = 1
}

describe('a value that JSON would lose is refused, and the error says where it is', () => {
  test.each<[string, unknown, string]>([
    ['undefined', undefined, 'The value is not JSON: it is undefined.'],
    ['a function', () => 1, 'The value is not JSON: it is a function.'],
    ['a symbol', Symbol('a'), 'it is a symbol'],
    ['a bigint', { cents: 1n }, '.cents is a bigint'],
    ['NaN', { a: [1, Number.NaN] }, '.a[1] is NaN, which JSON would turn into null'],
    [
      'Infinity',
      { a: { b: Number.NEGATIVE_INFINITY } },
      '.a.b is -Infinity, which JSON would turn into null',
    ],
    ['a Date', { at: new Date(0) }, '.at is a Date, which JSON would not preserve'],
    ['a Map', { map: new Map() }, '.map is a Map'],
    ['a Set', { set: new Set() }, '.set is a Set'],
    ['a Buffer', { bytes: Buffer.from('a') }, '.bytes is a Buffer'],
    ['an error', new Error('x'), 'it is a Error'],
    ['a promise', { later: Promise.resolve(1) }, '.later is a Promise'],
    ['an instance of a class', [new Money()], '[0] is a Money'],
    ['a boxed string', { a: new String('x') }, '.a is a String'],
    ['a hole in a list', { list: [1, undefined] }, '.list[1] is undefined'],
    ['its own toJSON', { toJSON: () => 1 }, '.toJSON is a function'],
    [
      'an instance of nothing with a name',
      Object.create(Object.create(Object.create(null) as object) as object),
      'which JSON would not preserve',
    ],
  ])('%s', (_, value, message) => {
    expect(() => encode(value)).toThrow(refused(message))
  })

  test('a value that contains itself, or is too deep', () => {
    const round: Record<string, unknown> = {}
    round['self'] = round
    expect(() => encode(round)).toThrow(refused('is nested deeper than 256 levels'))
    const nest = (depth: number): unknown => (depth === 0 ? 1 : [nest(depth - 1)])
    expect(encode(nest(256))).toHaveLength(513)
    expect(() => encode(nest(257))).toThrow(refused('is nested deeper than 256 levels'))
  })
})

test('the cap is in bytes of JSON, and its error says what to do', () => {
  expect(encode('é', 4)).toBe('"é"')
  expect(() => encode('é', 3)).toThrow(
    expect.objectContaining({
      code: 'PAWL_TOO_LARGE',
      message: expect.stringMatching(/^The value is 4 bytes of JSON; the cap is 3\. Keep large data/),
    }),
  )
})
