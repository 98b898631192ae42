import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { DelayLine } from '../../bench/src/measure/delay-line.js'

let now: number
let turns: (() => void)[]

beforeEach(() => {
  now = 0
  turns = []
  vi.spyOn(performance, 'now').mockImplementation(() => now)
  vi.stubGlobal('setImmediate', (turn: () => void) => turns.push(turn))
})
afterEach(() => {
  vi.restoreAllMocks()
  vi.unstubAllGlobals()
})

function lineOf(delayMs: number): DelayLine {
  const line = new DelayLine()
  line.delayMs = delayMs
  return line
}

/** One turn of the event loop at this moment. */
function turnAt(ms: number): void {
  now = ms
  const due = turns
  turns = []
  for (const turn of due) turn()
}

test('delivers after the delay, in order, and then stops polling', () => {
  const line = lineOf(0.5)
  const heard: string[] = []
  line.put(() => heard.push('a'))
  now = 0.2
  line.put(() => heard.push('b'))
  turnAt(0.4)
  expect(heard).toEqual([])
  turnAt(0.5)
  expect(heard).toEqual(['a'])
  turnAt(0.7)
  expect(heard).toEqual(['a', 'b'])
  expect(turns).toEqual([])
})

test('continues with what comes while it delivers, and after it has stopped polling', () => {
  const line = lineOf(1)
  const heard: string[] = []
  line.put(() => {
    heard.push('a')
    line.put(() => heard.push('b'))
  })
  turnAt(1)
  turnAt(2)
  expect(heard).toEqual(['a', 'b'])
  line.put(() => heard.push('c'))
  turnAt(3)
  expect(heard).toEqual(['a', 'b', 'c'])
})

test('holds nothing without a delay', () => {
  const heard: string[] = []
  lineOf(0).put(() => heard.push('a'))
  expect(heard).toEqual(['a'])
})
