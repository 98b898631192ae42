import { fingerprintOf } from '@pawl/core/internal'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

type Json = Parameters<typeof fingerprintOf>[0]
const json = fc.jsonValue({ stringUnit: 'binary', maxDepth: 4 }) as fc.Arbitrary<Json>
const hex = (value: Json) => fingerprintOf(value).toString('hex')

/** RFC 8785 a second time, written to be read. */
function canonicalize(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalize).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1))
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${canonicalize(member)}`).join(',')}}`
}

/** The same value with the members of every object in another order. */
function reordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reordered)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, member]) => [key, reordered(member)]),
  )
}

describe('the fingerprint of a request', () => {
  test('has these values in every version of Pawl, because rows in the database contain them', () => {
    expect(hex({ amount: 1200, to: 'here' })).toBe(
      '09c6defe49bd92ff44890c6283d1e041e3bfd3d6fe4e49c01565baee44cf6c73',
    )
    expect(hex(Buffer.from('{"amount":1200}'))).toBe(
      '3d8ce6f53afce0be649c7c80f15afb0a7bb98cd6886e764500c60d79ab9aa876',
    )
  })

  test('is equal exactly when the canonical forms are equal', () => {
    fc.assert(
      fc.property(json, json, (one, other) => {
        expect(hex(one) === hex(other)).toBe(canonicalize(one) === canonicalize(other))
      }),
    )
  })

  test('does not depend on the order of members, nor on white space', () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(hex(reordered(value) as Json)).toBe(hex(value))
        expect(hex(JSON.parse(JSON.stringify(value, null, 2)) as Json)).toBe(hex(value))
      }),
    )
  })

  test('depends on the value of a number, and not on how it is written', () => {
    expect(hex(JSON.parse('1.0') as Json)).toBe(hex(1))
    expect(hex(JSON.parse('1e2') as Json)).toBe(hex(100))
    expect(hex(-0)).toBe(hex(0))
    expect(hex('1')).not.toBe(hex(1))
  })

  test('depends on the order of lists, and on which members are there', () => {
    expect(hex([1, 2])).not.toBe(hex([2, 1]))
    expect(hex({})).not.toBe(hex({ a: null }))
    expect(hex({ a: undefined })).toBe(hex({}))
  })

  test('distinguishes lone surrogates', () => {
    expect(hex('\ud800')).not.toBe(hex('\ud801'))
    expect(hex('\ud800')).not.toBe(hex('\ufffd'))
  })

  test('of bytes is never that of JSON, not even of the same text', () => {
    fc.assert(
      fc.property(json, (value) => {
        const text = canonicalize(value)
        expect(hex(Buffer.from(text))).not.toBe(hex(value))
        expect(hex(Buffer.from(`json:${text}`))).not.toBe(hex(value))
      }),
    )
  })

  test('of bytes is equal exactly for equal bytes', () => {
    const bytes = fc.uint8Array({ maxLength: 6 })
    fc.assert(
      fc.property(bytes, bytes, (one, other) => {
        expect(hex(one) === hex(other)).toBe(Buffer.compare(one, other) === 0)
      }),
    )
  })

  test.each([[Number.NaN], [undefined], [1n], [() => 1]])('of %s is refused', (value) => {
    expect(() => fingerprintOf(value as never)).toThrow(expect.objectContaining({ code: 'PAWL_NOT_JSON' }))
  })

  test('of a value that contains itself is refused', () => {
    const round: Record<string, unknown> = {}
    round['self'] = round
    expect(() => fingerprintOf(round as never)).toThrow(expect.objectContaining({ code: 'PAWL_NOT_JSON' }))
  })
})
