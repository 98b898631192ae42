import { expect, test } from 'vitest'
import { uuidV7 } from '../../packages/core/src/uuid-v7.js'

const MANY = 20_000

const madeAt = (id = '') => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)

test('ids are of version 7, differ from each other, and grow', () => {
  const before = Date.now()
  const ids = Array.from({ length: MANY }, uuidV7)
  const after = Date.now()
  for (const id of ids)
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(new Set(ids).size).toBe(MANY)
  expect(ids).toEqual(ids.toSorted())
  expect(madeAt(ids[0])).toBeGreaterThanOrEqual(before)
  // More than 4,096 in a millisecond borrow from the next. Another test of this process may have set the clock ahead before.
  expect(madeAt(ids.at(-1)) - madeAt(ids[0])).toBeLessThanOrEqual(after - before + MANY / 4_096 + 1)
})

test('the random parts of ids of the same moment differ', () => {
  const tails = Array.from({ length: 1_000 }, () => uuidV7().slice(19))
  expect(new Set(tails).size).toBe(1_000)
})
