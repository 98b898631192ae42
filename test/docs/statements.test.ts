import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const page = readFileSync(`${ROOT}docs/statements.md`, 'utf8')

test('docs/statements.md has every statement as it is written', () => {
  // It is made from what was built last. To make it again: node scripts/statements.mjs
  const script = `${ROOT}scripts/statements.mjs`
  const made = execFileSync(process.execPath, [script, '--print'], { encoding: 'utf8' })
  expect(page, 'run: node scripts/statements.mjs').toBe(made)
})

test('every statement that the state machine names is there', () => {
  const machine = readFileSync(`${ROOT}docs/state-machine.md`, 'utf8')
  const named = [...machine.matchAll(/^\| `([a-z_]+)` /gm)].map(([, name]) => name)
  expect(named.length).toBeGreaterThan(15)
  const headings = [...page.matchAll(/^### (.*)$/gm)].map(([, name]) => name)
  expect(headings).toEqual(expect.arrayContaining(named))
})
