import { describe, expect, test } from 'vitest'
import { short, withSpread } from '../../bench/src/report/numbers.js'
import { makeReport, reportText } from '../../bench/src/report/report.js'
import { sectionTable } from '../../bench/src/report/section-table.js'
import type { Surroundings } from '../../bench/src/report/surroundings.js'
import { line, section } from './sections.js'

const surroundings: Surroundings = {
  machine: { cpu: 'a CPU', cores: 2, memoryGiB: 8, system: 'Linux 6' },
  versions: { node: '20.0.0', postgresql: '18.0' },
  server: { kind: 'embedded', settings: { fsync: 'off' } },
  poolSize: 20,
  warnings: ['fsync is off'],
}

test.each([
  [null, '–'],
  [Number.NaN, '–'],
  [0.987_6, '0.99'],
  [12.34, '12.3'],
  [123.4, '123'],
  [12_345.6, '12,346'],
])('%s is written as %s', (value, expected) => {
  expect(short(value)).toBe(expected)
})

test('a spread is written with both ends', () => {
  expect(withSpread({ median: 761.2, min: 740, max: 1_790.4 })).toBe('761 (740..1,790)')
})

describe('the table of a section', () => {
  const lines = [
    line('pawl', [761], { ratio: { median: 1.02, min: 0.98, max: 1.1 }, p50Ms: 41, walBytes: 4_100 }),
    line('hand-written', [745]),
  ]

  test('aligns what was measured, and leaves out what nobody was measured for', () => {
    const table = sectionTable(
      section('fresh C=32', lines, { title: 'Fresh', baseline: 'hand-written', notes: ['a note'] }),
    )
    expect(table.split('\n')).toEqual([
      'Fresh (ratios against hand-written)',
      '',
      '                  requests/s        req/s ratio  p50 ms  WAL B',
      '────────────  ──────────────  ─────────────────  ──────  ─────',
      'pawl          761 (761..761)  1.02 (0.98..1.10)    41.0  4,100',
      'hand-written  745 (745..745)                  –       –      –',
      '  a note',
    ])
  })

  test('fits into 110 columns with every column', () => {
    const spread = { median: 1_234, min: 1_000, max: 1_999 }
    const all = line('no-idempotency', [1], {
      requestsPerSecond: spread,
      ratio: { median: 12.34, min: 10.01, max: 15.67 },
      p50Ms: 1_234,
      p99Ms: 12_345,
      cpuMs: 1.23,
      walBytes: 12_345,
      commits: 4.01,
      statements: 16.1,
      roundTrips: 16.1,
    })
    const widths = sectionTable(section('fresh', [all]))
      .split('\n')
      .map((text) => text.length)
    expect(Math.max(...widths)).toBeLessThanOrEqual(110)
  })
})

test('a report describes its surroundings, warns, and names errors', () => {
  const bad = line('original', [1], { errors: 2, firstError: 'answered 503: busy' })
  const report = makeReport([section('fresh C=1', [bad])], { mode: 'quick', seconds: 61.4, surroundings })
  expect(report.errors).toEqual(['fresh C=1: original failed 2 times. The first answered 503: busy'])
  const text = reportText(report)
  expect(text).toContain('2 cores (a CPU), 8 GiB, Linux 6')
  expect(text).toContain('WARNING: fsync is off')
  expect(text).toContain('ERROR: fresh C=1: original failed 2 times')
  expect(text).toContain('Took 61 s (quick)')
  // Nothing was compared, so there is no table of dashes.
  expect(text).not.toContain('Targets')
})
