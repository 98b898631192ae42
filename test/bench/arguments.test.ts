import { describe, expect, test } from 'vitest'
import { readArguments } from '../../bench/src/arguments.js'

test('without arguments, everything runs at full length', () => {
  const { mode, scenarios, contenders, json, chart, help } = readArguments([])
  expect({ mode, json, chart, help }).toEqual({ mode: 'full', json: false, chart: null, help: false })
  expect(scenarios).toContain('growth')
  expect(contenders).toContain('dbos')
})

test('lists are sorted in the order of the bench, without duplicates', () => {
  const { scenarios, contenders } = readArguments(['--only', 'away, fresh,away', '--contenders=pawl'])
  expect(scenarios).toEqual(['fresh', 'away'])
  expect(contenders).toEqual(['pawl'])
})

test('every other option is read', () => {
  expect(readArguments(['--quick', '--json', '--chart', 'a/b.svg', '--help'])).toMatchObject({
    mode: 'quick',
    json: true,
    chart: 'a/b.svg',
    help: true,
  })
})

describe('a wrong argument is named', () => {
  test.each([
    [['--only', 'fresh,frsh'], "--only: there is no 'frsh'; it takes fresh, start, replay"],
    [['--contenders', ''], "--contenders: there is no ''; it takes pawl, "],
    [['--chart', 'chart.png'], "--chart is 'chart.png'; it takes the name of a file that ends in .svg."],
    [['--fast'], "Unknown option '--fast'"],
    [['quick'], "Unexpected argument 'quick'"],
  ])('%j', (argv, message) => {
    expect(() => readArguments(argv)).toThrow(message)
  })
})
