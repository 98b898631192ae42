import { describe, expect, test } from 'vitest'
import { judgeTargets } from '../../bench/src/report/targets.js'
import { targetsTable } from '../../bench/src/report/targets-table.js'
import { line, section } from './sections.js'

const times = (contender: string, p50Ms: readonly number[], p99Ms: readonly number[] = []) =>
  line(contender, [1], { perRound: { requestsPerSecond: [1], p50Ms, p99Ms, cpuMs: [] } })

/** A run in which every target is met exactly. */
const sections = [
  section('fresh C=1', [line('pawl', [10]), line('hand-written', [10])]),
  section('fresh C=32', [
    line('pawl', [50], { cpuMs: 1.4 }),
    line('hand-written', [50], { cpuMs: 1 }),
    line('no-idempotency', [90], { cpuMs: 0.5 }),
    line('dbos', [10]),
  ]),
  section('slow provider', [line('pawl', [120]), line('original', [10])]),
  section('1 ms away', [times('pawl', [7]), times('hand-written', [10])]),
  section('replay over HTTP', [line('pawl-fastify', [85]), line('select-route', [100])]),
  section('growth', [line('empty table', [100]), line('2 million keys', [90])]),
  section('reaper', [times('without the reaper', [1], [2]), times('with the reaper', [1], [3])]),
]

describe('a run that meets all of them, some exactly', () => {
  const targets = judgeTargets(sections)

  test('has a verdict for each line of the table', () => {
    expect(targets.map(({ ratio, bound, kind, met }) => [ratio, kind, bound, met])).toEqual([
      [1, 'at least', 1, true],
      [1, 'at least', 1, true],
      [5, 'at least', 5, true],
      [12, 'at least', 12, true],
      [0.7, 'at most', 0.7, true],
      [0.85, 'at least', 0.85, true],
      [0.9, 'at least', 0.9, true],
      [1.5, 'at most', 1.5, true],
      [expect.closeTo(0.9), 'at most', 1.3, true],
    ])
  })

  test("tells Pawl's total CPU besides its own share", () => {
    expect(targetsTable(targets, sections)).toContain("1.40 ms, 1.40× of the hand-written pattern's 1.00 ms")
  })
})

test('too little is missed where it is at least, too much where it is at most', () => {
  const targets = judgeTargets([
    section('fresh C=1', [line('pawl', [9]), line('hand-written', [10])]),
    section('1 ms away', [times('pawl', [8]), times('hand-written', [10])]),
  ])
  expect(targets.filter(({ met }) => met === false).map(({ ratio }) => ratio)).toEqual([0.9, 0.8])
  expect(targetsTable(targets, [])).toContain('NOT MET')
})

test('ratios are the median of the rounds', () => {
  const [target] = judgeTargets([
    section('fresh C=1', [line('pawl', [10, 20, 60]), line('hand-written', [20, 40, 10])]),
  ])
  expect(target?.ratio).toBe(0.5)
})

test('what was not measured is listed, without a verdict', () => {
  const targets = judgeTargets([section('fresh C=32', [line('pawl', [1], { cpuMs: 1 })])])
  expect(targets).toHaveLength(9)
  for (const target of targets) expect(target).toMatchObject({ ratio: null, met: null })
})
