import { expect, test } from 'vitest'
import { drawChart } from '../../bench/src/report/chart.js'
import { line, section } from './sections.js'

/** Every element that is opened is closed, in order. Throws otherwise. */
function checkNesting(svg: string): void {
  const open: string[] = []
  for (const [, closing, name, selfClosing] of svg.matchAll(/<(\/?)([a-z]+)[^>]*?(\/?)>/g)) {
    if (closing === '/') expect(open.pop()).toBe(name)
    else if (selfClosing === '') open.push(name ?? '')
  }
  expect(open).toEqual([])
}

const widths = (svg: string): number[] =>
  [...svg.matchAll(/class="bar[^"]*" x="[^"]*" y="[^"]*" width="([^"]*)"/g)].map(([, width]) => Number(width))

test('bars are as long as the figures say, the longest as long as there is room', () => {
  const svg = drawChart([
    section('fresh C=32', [line('pawl', [800]), line('hand-written', [400]), line('dbos', [0])]),
    section('slow provider', [line('pawl', [700]), line('original', [70])]),
  ])
  checkNesting(svg)
  const [first = 0, second = 0, none = 0, third = 0, fourth = 0] = widths(svg)
  expect(second).toBeCloseTo(first / 2)
  expect(none).toBeGreaterThan(0)
  expect(third).toBe(first)
  expect(fourth).toBeCloseTo(first / 10, 0)
  expect(svg).toContain('>800</text>')
  expect(svg).not.toContain('NaN')
})

test('has colours for both light and dark', () => {
  expect(drawChart([])).toContain('prefers-color-scheme: dark')
})

test('says what was not measured, and the picture stays valid', () => {
  const svg = drawChart([section('fresh C=32', [line('a<b>&"c"', [1])])])
  checkNesting(svg)
  expect(svg).toContain('not measured')
  expect(svg).toContain('a&lt;b&gt;&amp;&quot;c&quot;')
  expect(svg).not.toMatch(/NaN|Infinity/)
})
