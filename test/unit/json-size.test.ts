import { isLargerThan, shorten } from '@pawl/core/internal'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'

const bytesOf = (value: unknown) => Buffer.byteLength(JSON.stringify(value))

describe('isLargerThan', () => {
  test('is false for JSON that is not larger', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => !isLargerThan(value, bytesOf(value))),
      { numRuns: 500 },
    )
  })

  test.each([
    ['a text', 'x'.repeat(1_000)],
    ['a text of which each character has three bytes', '€'.repeat(400)],
    ['empty objects', Array.from({ length: 400 }, () => ({}))],
    ['many members', Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`m${at}`, 1]))],
    ['one long name', { ['n'.repeat(1_000)]: 1 }],
    ['brackets without end', JSON.parse(`${'['.repeat(5_000)}${']'.repeat(5_000)}`) as unknown],
    ['bytes', Buffer.alloc(1_001)],
  ])('is true for %s', (_, value) => {
    expect(isLargerThan(value, 1_000)).toBe(true)
  })

  test('returns for a value that contains itself', () => {
    const value: unknown[] = []
    value.push(value)
    expect(isLargerThan(value, 1_000_000)).toBe(true)
  })

  test('does not count members that JSON leaves out', () => {
    expect(isLargerThan({ ['n'.repeat(1_000)]: undefined }, 2)).toBe(false)
  })
})

describe('shorten', () => {
  test('leaves a text that is short enough', () => {
    expect(shorten('short', 5)).toBe('short')
  })

  test('does not cut a character in two', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', maxLength: 40 }),
        fc.integer({ min: 1, max: 20 }),
        (text, most) => {
          const short = shorten(text, most)
          return short.length <= most && Buffer.from(short).toString() === short
        },
      ),
    )
  })
})
