import { providerKeyOf } from '@pawl/core/internal'
import fc from 'fast-check'
import { expect, test } from 'vitest'

type Parts = [
  namespace: string,
  scope: string,
  key: string,
  fingerprint: string,
  pipeline: string,
  effect: string,
  epoch: number,
  undone: number,
]
const keyOf = ([namespace, scope, key, fingerprint, pipeline, effect, effectEpoch, undoneBefore]: Parts) =>
  providerKeyOf(namespace, { scope, key, fingerprint, pipeline, effectEpoch, undoneBefore }, effect)

const text = fc.string({ unit: 'grapheme', maxLength: 6 })
const parts: fc.Arbitrary<Parts> = fc.tuple(text, text, text, text, text, text, fc.nat(3), fc.nat(3))

// Shows I8.
test('the provider key of a request is the same in every version of Pawl, because providers remember it', () => {
  expect(keyOf(['pawl', 'rider-1', 'key-1', 'ab'.repeat(32), 'create-ride', 'charge', 0, 0])).toBe(
    'pawl_IJbxbJUQzKNw2cBL_3CPfCEQZ7MaWVczPpQY0Au2jgY',
  )
  expect(keyOf(['pawl', 'rider-é', '🔑', 'ab'.repeat(32), 'create-ride', 'charge', 2, 0])).toBe(
    'pawl_6cb8hrNX6Xt22dUSOXRsR-QUILZL9MVLx3bTR05pg6U',
  )
})

test('it fits into a header, and has a form that providers accept', () => {
  fc.assert(
    fc.property(parts, (of) => {
      expect(keyOf(of)).toMatch(/^pawl_[\w-]{43}$/)
    }),
  )
})

// Shows I8.
test('a provider key is equal exactly for equal parts', () => {
  fc.assert(
    fc.property(parts, parts, (one, other) => {
      expect(keyOf(one) === keyOf(other)).toBe(JSON.stringify(one) === JSON.stringify(other))
    }),
  )
})

test('it changes with every single part', () => {
  fc.assert(
    fc.property(parts, fc.nat(7), (of, index) => {
      const changed = of.map((part, at) =>
        at !== index ? part : typeof part === 'number' ? part + 1 : `${part}x`,
      ) as Parts
      expect(keyOf(changed)).not.toBe(keyOf(of))
    }),
  )
})

test('it changes when text moves across the boundary of two parts', () => {
  const moves = fc.tuple(parts, fc.nat(4), fc.string({ minLength: 1, maxLength: 3 }))
  fc.assert(
    fc.property(moves, ([of, index, moved]) => {
      const left = [...of] as Parts
      const right = [...of] as Parts
      left[index] = `${of[index]}${moved}`
      right[index + 1] = `${moved}${of[index + 1]}`
      expect(keyOf(left)).not.toBe(keyOf(right))
    }),
  )
})

test('it is not fooled by parts that look like length prefixes', () => {
  expect(keyOf(['1:a', '', '', '', '', '', 0, 0])).not.toBe(keyOf(['', '1:a', '', '', '', '', 0, 0]))
  expect(keyOf(['a', '1:b', '', '', '', '', 0, 0])).not.toBe(keyOf(['a1:1', 'b', '', '', '', '', 0, 0]))
})
