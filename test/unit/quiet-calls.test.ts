import { expect, test } from 'vitest'
import { MAX_QUIET_CALLS } from '../../packages/core/src/limits.js'
import { QuietCalls } from '../../packages/core/src/run/quiet-calls.js'

const HOUR_MS = 3_600_000
const DEADLINE_MS = 1_700_000_000_000

test("the database's clock can make the remaining time longer, but not shorter", () => {
  const calls = new QuietCalls()
  calls.watch('k', DEADLINE_MS, HOUR_MS)
  expect(calls.leftMs('k', DEADLINE_MS, 0)).toBeGreaterThan(HOUR_MS - 60_000)
  expect(calls.leftMs('k', DEADLINE_MS, 2 * HOUR_MS)).toBe(2 * HOUR_MS)
})

test('what is known about one declaration says nothing about the next', () => {
  const calls = new QuietCalls()
  calls.watch('k', DEADLINE_MS, HOUR_MS)
  expect(calls.leftMs('k', DEADLINE_MS + 1, 10)).toBe(10)
})

test('a call is remembered from the first time that somebody asks about it until it is forgotten', () => {
  const calls = new QuietCalls()
  expect(calls.leftMs('k', DEADLINE_MS, HOUR_MS)).toBe(HOUR_MS)
  expect(calls.leftMs('k', DEADLINE_MS, 0)).toBeGreaterThan(HOUR_MS - 60_000)
  calls.forget('k')
  expect(calls.leftMs('k', DEADLINE_MS, 0)).toBe(0)
})

test('if there are too many calls, the oldest are forgotten', () => {
  const calls = new QuietCalls()
  for (let n = 0; n <= MAX_QUIET_CALLS; n++) calls.watch(`k${n}`, DEADLINE_MS, HOUR_MS)
  expect(calls.leftMs('k1', DEADLINE_MS, 0)).toBeGreaterThan(0)
  expect(calls.leftMs('k0', DEADLINE_MS, 0)).toBe(0)
})
