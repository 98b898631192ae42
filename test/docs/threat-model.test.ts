import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const PAGE = new URL('../../docs/threat-model.md', import.meta.url)
const page = readFileSync(PAGE, 'utf8')

/** The cells of each row that is no heading and no rule. */
const rows = [...page.matchAll(/^\| (.*) \|$/gm)]
  .map(([, line = '']) => line.split(' | ').map((cell) => cell.trim()))
  .filter(([first = '']) => first !== 'asset' && !/^-+$/.test(first))

test('the page has a table under each heading about threats', () => {
  const headings = [...page.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading)
  const tables = [...page.matchAll(/^\| asset /gm)]
  expect(tables).toHaveLength(headings.length - 1)
  expect(rows.length).toBeGreaterThan(30)
})

test.each(rows.map((cells) => [cells[1] ?? '', cells] as const))('%s', (_, cells) => {
  const [asset, threat, measure, shownBy = ''] = cells
  expect(cells).toHaveLength(5)
  for (const cell of [asset, threat, measure]) expect(cell).not.toBe('')
  const tests = [...shownBy.matchAll(/\]\((\.\.\/test\/[^)#]+\.test\.ts)\)/g)].map(([, path = '']) => path)
  expect(tests.length).toBeGreaterThan(0)
  for (const path of tests) expect(existsSync(new URL(path, PAGE)), path).toBe(true)
})
