import { expect, test } from 'vitest'
import { cacheAnswer } from '../../packages/core/src/request/answer-from-cache.js'

type Given = Parameters<typeof cacheAnswer>

/** What is kept of an answer that came from there. */
function keptOf(from: string, type: string): unknown[] {
  const kept: unknown[] = []
  const cache = { keep: (row: unknown) => kept.push(row) } as unknown as Given[0]
  const reservation = { type: 'decided', row: 'the row', decision: { type }, markedStuck: false, from }
  cacheAnswer(cache, null, reservation as unknown as Given[2])
  return kept
}

test.each([
  ['primary', 'replay', ['the row']],
  ['primary', 'in_flight', ['the row']],
  ['primary', 'mismatch', []],
  ['primary', 'stuck', []],
  // It may be older than the epoch.
  ['replica', 'replay', []],
  // It would live for ever.
  ['cache', 'replay', []],
  ['cache', 'in_flight', []],
])('what the %s says of a key (%s) is cached: %j', (from, type, kept) => {
  expect(keptOf(from, type)).toEqual(kept)
})
