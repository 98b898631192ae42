import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const read = (path: string): string => readFileSync(`${ROOT}${path}`, 'utf8')
const page = read('docs/internals.md')

/** The file that a path on the page means. */
const sourceOf = (path: string): string =>
  path.startsWith('fastify:')
    ? `packages/fastify-adapter/src/${path.slice('fastify:'.length)}`
    : `packages/core/src/${path}`

/** Such as `nextStep` (`run/next-step.ts`), also where a line ends between the two. */
const named = [...page.matchAll(/`(\w+)`\s+\(`((?:fastify:)?[\w/-]+\.ts)`\)/g)].map(
  ([, name = '', path = '']) => ({ name, path }),
)

test('the page names functions with their files', () => {
  expect(named.length).toBeGreaterThan(30)
  const paths = [...page.matchAll(/`((?:fastify:)?[\w/-]+\.ts)`/g)].map(([, path]) => path)
  expect(paths).toHaveLength(named.length)
})

test.each(named)('$name is in $path', ({ name, path }) => {
  expect(existsSync(`${ROOT}${sourceOf(path)}`)).toBe(true)
  expect(read(sourceOf(path))).toMatch(new RegExp(`^export .*\\b${name}\\b`, 'm'))
})

/**
 * Who calls or sends what, such as `Relay` (`background/relay.ts`) sends `claimJobs`, also where lines end in between. In
 * "it sends", it is whoever was named last.
 */
function readEdges() {
  const said = page.matchAll(
    /(?:`(\w+)`\s+\(`((?:fastify:)?[\w/-]+\.ts)`\)|\b[Ii]t)\s+(?:calls|sends)\s+`(\w+)`/g,
  )
  const found: { caller: string; path: string; called: string }[] = []
  for (const [, caller, path, called = ''] of said) {
    const last = found.at(-1)
    found.push({ caller: caller ?? last?.caller ?? '', path: path ?? last?.path ?? '', called })
  }
  return found
}
const edges = readEdges()

test('the page says who calls whom', () => {
  expect(edges).toEqual(
    expect.arrayContaining([
      { caller: 'Completer', path: 'background/completer.ts', called: 'resumeDue' },
      { caller: 'RunningEngine', path: 'engine/running-engine.ts', called: 'reserveDue' },
    ]),
  )
  // No other sentence says so in another form, which would not be checked.
  expect(edges).toHaveLength([...page.matchAll(/\b(?:calls|sends)\s+`/g)].length)
})

test.each(edges)('$path calls $called', ({ path, called }) => {
  expect(read(sourceOf(path))).toMatch(new RegExp(`\\b${called}\\(`))
})

test('the tests of the mechanisms are there', () => {
  const rows = [...page.matchAll(/^\| .* \| `\w+` \(`[\w/-]+\.ts`\) +\| \[(.*)\]\(\.\.\/(.*)\) +\|$/gm)]
  expect(rows.length).toBeGreaterThan(15)
  for (const [, title = '', file = ''] of rows) expect(read(file), file).toContain(title)
})

test('every folder of core is on the drawing, and in the table of CONTRIBUTING', () => {
  const folders = [
    'announce',
    'background',
    'driver',
    'engine',
    'operate',
    'pipeline',
    'query',
    'request',
    'run',
    'storage',
  ]
  const contributing = read('CONTRIBUTING.md')
  for (const folder of folders) {
    expect(page).toContain(`${folder}/`)
    expect(contributing).toContain(`\`${folder}\``)
  }
})

test('the index of guarantees matches the comments in the tests', () => {
  // To make it again: node scripts/guarantee-index.mjs
  const script = `${ROOT}scripts/guarantee-index.mjs`
  expect(page).toBe(execFileSync(process.execPath, [script, '--print'], { encoding: 'utf8' }))
})

test('every guarantee that is promised has a test, and no other is mentioned', () => {
  const promised = [...read('docs/guarantees.md').matchAll(/^\| ([IL]\d+) /gm)].map(([, name]) => name)
  expect(promised.length).toBeGreaterThan(15)
  const shown = [...page.matchAll(/^- \*\*([IL]\d+)\*\*: \S.*\n {2}- \[/gm)].map(([, name]) => name)
  expect(shown).toEqual(promised)
})

test('every guarantee has a test in npm test, and not only in npm run test:deep', () => {
  const entries = [...page.matchAll(/^- \*\*([IL]\d+)\*\*: .*((?:\n {2}- .*)*)/gm)]
  expect(entries.length).toBeGreaterThan(15)
  const onlyDeep = entries.filter(([, , tests = '']) => !/\/[\w-]+\.test\.ts\)/.test(tests))
  expect(onlyDeep.map(([, name]) => name)).toEqual([])
})
