import { describe, expect, test } from 'vitest'
import { judgeTargets } from '../../bench/src/report/targets.js'
import { targetsTable } from '../../bench/src/report/targets-table.js'
import { line, section } from './sections.js'

const times = (contender: string, p50Ms: readonly number[], p99Ms: readonly number[] = []) =>
  line(contender, [1], { perRound: { requestsPerSecond: [1], p50Ms, p99Ms, cpuMs: [] } })

/** A run in which every target is met exactly. */
const sections = [
  section('fresh C=1', [line('pawl-fewest', [14]), line('hand-written', [10])]),
  section('fresh C=32', [
    line('pawl-fewest', [70], { cpuMs: 1.4, walBytes: 2_200 }),
    line('pawl-each', [57.5]),
    line('hand-written', [50], { cpuMs: 1 }),
    line('no-idempotency', [90], { cpuMs: 0.5 }),
    line('dbos', [14]),
    line('pawl-fastify', [48]),
    line('hand-written-fastify', [40]),
  ]),
  section('fresh C=256', [line('pawl-fewest', [12]), line('hand-written', [10])]),
  section('slow provider', [line('pawl-fewest', [200]), line('original', [10])]),
  section('1 ms away', [times('pawl-fewest', [4.5]), times('hand-written', [10])]),
  section('replay over HTTP', [line('pawl-fastify', [95]), line('select-route', [100])]),
  section('guards', [
    line('all off', [100]),
    line('all off, one scope', [90]),
    line('limits', [93]),
    line('limits, one scope', [83.7]),
    line('protect', [90]),
  ]),
  section('instrumented', [line('not instrumented', [100]), line('traces and metrics', [90])]),
  section('cached replay', [line('pawl-fastify-cached', [200]), line('select-route', [100])]),
  section('growth', [
    line('empty table', [100]),
    line('empty table, partitioned', [95]),
    line('2 million keys', [97], { walBytes: 7_000 }),
    line('10 million keys, partitioned', [90.25]),
  ]),
  section('growth replay', [
    line('empty table', [100]),
    line('empty table, partitioned', [80]),
    line('10 million keys', [95]),
    line('10 million keys, partitioned', [76]),
  ]),
  section('start', [line('pawl-fewest', [10]), line('hand-written', [10])]),
  section('reaper', [times('without the reaper', [1], [2]), times('with the reaper', [1], [3])]),
]

describe('a run that meets all of them, some exactly', () => {
  const targets = judgeTargets(sections)

  test('has a verdict for each line of the table', () => {
    expect(targets.map(({ ratio, bound, kind, met }) => [ratio, kind, bound, met])).toEqual([
      [1.4, 'at least', 1.4, true],
      [1.4, 'at least', 1.4, true],
      [1.2, 'at least', 1.2, true],
      [1.15, 'at least', 1.15, true],
      [5, 'at least', 5, true],
      [1.2, 'at least', 1.2, true],
      [20, 'at least', 20, true],
      [0.45, 'at most', 0.45, true],
      [0.95, 'at least', 0.95, true],
      [0.93, 'at least', 0.93, true],
      [0.93, 'at least', 0.93, true],
      [0.9, 'at least', 0.9, true],
      [0.9, 'at least', 0.9, true],
      [2, 'at least', 2, true],
      [0.97, 'at least', 0.97, true],
      [0.95, 'at least', 0.95, true],
      [0.95, 'at least', 0.95, true],
      [0.95, 'at least', 0.95, true],
      [0.95, 'at least', 0.95, true],
      [2.2, 'at most', 2.2, true],
      [7, 'at most', 7, true],
      [1, 'at least', 1, true],
      [1.5, 'at most', 1.5, true],
      [expect.closeTo(0.9), 'at most', 1.3, true],
    ])
  })

  test("reports Pawl's total CPU beside its own share", () => {
    expect(targetsTable(targets, sections)).toContain("1.40 ms, 1.40× of the hand-written pattern's 1.00 ms")
  })
})

test('a value below a minimum or above a maximum misses the target', () => {
  const targets = judgeTargets([
    section('fresh C=1', [line('pawl-fewest', [9]), line('hand-written', [10])]),
    section('1 ms away', [times('pawl-fewest', [8]), times('hand-written', [10])]),
  ])
  expect(targets.filter(({ met }) => met === false).map(({ ratio }) => ratio)).toEqual([0.9, 0.8])
  expect(targetsTable(targets, [])).toContain('NOT MET')
})

test('ratios are the median of the rounds', () => {
  const [target] = judgeTargets([
    section('fresh C=1', [line('pawl-fewest', [10, 20, 60]), line('hand-written', [20, 40, 10])]),
  ])
  expect(target?.ratio).toBe(0.5)
})

test('a target that was not measured is listed without a verdict', () => {
  const targets = judgeTargets([section('fresh C=32', [line('pawl-fewest', [1], { cpuMs: 1 })])])
  expect(targets).toHaveLength(24)
  for (const target of targets) expect(target).toMatchObject({ ratio: null, met: null })
})
