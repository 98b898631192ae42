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
  const shown = [...page.matchAll(/^- \*\*([IL]\d+)\*\*: \[/gm)].map(([, name]) => name)
  expect(shown).toEqual(promised)
})

test('every guarantee has a test in npm test, and not only in npm run test:deep', () => {
  const lines = [...page.matchAll(/^- \*\*([IL]\d+)\*\*: (.*)$/gm)]
  const onlyDeep = lines.filter(([, , tests = '']) => !/\/[\w-]+\.test\.ts\)/.test(tests))
  expect(onlyDeep.map(([, name]) => name)).toEqual([])
})
