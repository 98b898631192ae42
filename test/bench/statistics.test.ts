import { describe, expect, test } from 'vitest'
import { joined, median, percentile, ratiosOf, spreadOf } from '../../bench/src/measure/statistics.js'

describe('percentile', () => {
  test.each([
    [0.5, 50],
    [0.99, 99],
    [1, 100],
    [0, 1],
  ])('%s of 1 to 100 is %s', (share, expected) => {
    const shuffled = Array.from({ length: 100 }, (_, at) => ((at * 37) % 100) + 1)
    expect(percentile(shuffled, share)).toBe(expected)
  })

  test('sorts as numbers, and leaves what it got alone', () => {
    const values = [10, 9, 2]
    expect(percentile(values, 0.5)).toBe(9)
    expect(values).toEqual([10, 9, 2])
  })

  test('of an empty list is NaN', () => {
    expect(percentile([], 0.5)).toBeNaN()
  })
})

describe('median', () => {
  test.each([
    [[3], 3],
    [[10, 9, 2], 9],
    [[4, 1, 3, 2], 2.5],
  ])('of %j is %s', (values, expected) => {
    expect(median(values)).toBe(expected)
  })
})

test('a spread has the middle and both ends', () => {
  expect(spreadOf([5, 1, 3])).toEqual({ median: 3, min: 1, max: 5 })
})

test('ratios are computed round by round, not from the medians', () => {
  // The medians are 20 and 20: their ratio would be 1.
  expect(ratiosOf([10, 20, 60], [20, 40, 10])).toEqual({ median: 0.5, min: 0.5, max: 6 })
})

test('rounds are joined in their order', () => {
  expect([...joined([Float64Array.of(3, 1), Float64Array.of(), Float64Array.of(2)])]).toEqual([3, 1, 2])
})
