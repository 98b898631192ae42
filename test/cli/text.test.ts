import { describe, expect, test } from 'vitest'
import { hideSecrets } from '../../packages/cli/src/hide-secrets.js'
import { nearest } from '../../packages/cli/src/nearest.js'
import { parseDuration } from '../../packages/cli/src/parse/duration.js'
import { parseMoment } from '../../packages/cli/src/parse/moment.js'
import { createPaint } from '../../packages/cli/src/render/paint.js'
import { table } from '../../packages/cli/src/render/table.js'
import { cutMiddle, cutText, textWidth } from '../../packages/cli/src/render/text-width.js'
import { durationText } from '../../packages/cli/src/render/time.js'

test.each([
  ['250ms', 250],
  ['30s', 30_000],
  ['5m', 300_000],
  ['2h', 7_200_000],
  ['7d', 604_800_000],
  ['1h30m', 5_400_000],
])('the duration %s is %i ms', (text, ms) => expect(parseDuration(text)).toBe(ms))

test.each(['', '5', 'm', '-5m', '5 m', '1.5h', '5M', '5mm', 'm5'])('%j is not a duration', (text) => {
  expect(() => parseDuration(text)).toThrow('is not a duration')
})

test.each([
  ['2026-03-31', '2026-03-31T00:00:00.000Z'],
  ['2026-03-31T12:00Z', '2026-03-31T12:00:00.000Z'],
  ['2026-03-31T12:00:00.5+02:00', '2026-03-31T10:00:00.500Z'],
])('the moment %s is %s', (text, iso) => expect(parseMoment(text).toISOString()).toBe(iso))

test.each(['', 'now', '2026-02-30', '2026-03-31T12:00:00', '2026-13-01', '31.03.2026'])(
  '%j is not a moment',
  (text) => {
    expect(() => parseMoment(text)).toThrow('is not a moment')
  },
)

test.each([
  [0, '0ms'],
  [999, '999ms'],
  [2_499, '2.4s'],
  [59_999, '59s'],
  [60_000, '1m'],
  [192_000, '3m 12s'],
  [3_600_000, '1h'],
  [90_061_000, '1d 1h'],
])('%i ms are written as %s', (ms, text) => expect(durationText(ms)).toBe(text))

test('the nearest word is suggested only if it is near', () => {
  const known = ['status', 'list', 'show', 'unstick', 'revoke']
  expect(nearest('statsu', known)).toBe('status')
  expect(nearest('revok', known)).toBe('revoke')
  expect(nearest('x', known)).toBeNull()
  expect(nearest('frobnicate', known)).toBeNull()
})

test('columns are aligned, whatever is in them', () => {
  const rows = [
    ['東京', '1'],
    ['é', '22'],
    ['🚕', '3'],
    ['\u001B[31m', '4'],
  ]
  const lines = table([{ title: 'A' }, { title: 'N', align: 'right' }], rows, createPaint(false))
  expect(new Set(lines.map(textWidth)).size).toBe(1)
  const painted = table(
    [{ title: 'A' }, { title: 'B' }],
    [[{ text: 'x', style: 'red' }, 'y']],
    createPaint(true),
  )
  expect(painted[1]).toBe('\u001B[31mx\u001B[0m  y')
})

test('a text is cut between characters', () => {
  expect(cutText('abcdef', 6)).toBe('abcdef')
  expect(cutText('abcdef', 4)).toBe('abc…')
  expect(cutText('東京東京', 4)).toBe('東…')
})

// The time of the processor, not of the clock: other processes may run. A square would be 64 times as much.
test.each(['a', '://', '\u0301', '\u200D', '👨\u200D', '東', '\u001B'])(
  '%j costs as much at any place of a text',
  (part) => {
    const costOf = (length: number): number => {
      const text = part.repeat(length / part.length)
      const runs = Array.from({ length: 5 }, () => {
        const before = process.cpuUsage()
        for (const work of [
          textWidth,
          (all: string) => cutText(all, 60),
          (all: string) => cutMiddle(all, 60),
        ])
          work(text)
        return process.cpuUsage(before).user + process.cpuUsage(before).system
      })
      return Math.min(...runs)
    }
    expect(costOf(65_536)).toBeLessThan(24 * Math.max(costOf(8_192), 2_000))
  },
)

describe('passwords', () => {
  const url = 'postgresql://anna:s%C3%A9same@db/pawl?password=other'
  test('are hidden both encoded and decoded', () => {
    for (const text of [url, 'failed for sésame', 'failed for s%C3%A9same', 'got other']) {
      expect(hideSecrets(text, url)).not.toMatch(/sésame|s%C3%A9same|other/)
    }
  })
  test('are hidden even with characters that a URL may not contain, but people type', () => {
    expect(hideSecrets('redis://bob:hun@ter:2@h:1/0 and http://h:1/a:b@c', undefined)).toBe(
      'redis://bob:***@h:1/0 and http://h:1/a:b@c',
    )
  })
  test('of any other URL are hidden, too', () => {
    expect(hideSecrets('cannot parse redis://bob:hunter2@h:1', undefined)).toBe(
      'cannot parse redis://bob:***@h:1',
    )
  })
})
