import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import { engineOn, fill, mendImport } from './filled-database.js'
import { pawlOn } from './pawl.js'

/** The README shows what the tool prints; apart from times and ids, it has to print the same here. */

const readme = await readFile(new URL('../../packages/cli/README.md', import.meta.url), 'utf8')

let database: TestDatabase
beforeAll(async () => {
  database = await TestDatabase.createPlain()
  await fill(database)
  mendImport(database)
  const engine = engineOn(database)
  await engine.recordPipelines()
  await engine.close()
})
afterAll(() => database.drop())

/** The block that follows a command in the README. */
function shown(command: string): string {
  const [, output] = readme.split(`\n\`\`\`console\n$ pawl ${command}\n`)
  if (output === undefined) throw new Error(`the README does not show pawl ${command}`)
  return output.split('```\n')[0] ?? ''
}

/** Removes what differs from run to run. */
function withoutTimes(text: string): string {
  return text
    .replaceAll(` --schema ${database.schema}`, '')
    .replaceAll(database.schema, 'pawl')
    .replaceAll(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, 'ID')
    .replaceAll(/\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:Z|\.\d{3})/g, 'MOMENT')
    .replaceAll(/\+?\b(?:[\d.]+(?:ms|[smhd])\b ?)+/g, 'SPAN ')
    .replaceAll(/\bpawl_[\w-]{20,}/g, 'PROVIDER_KEY')
    .replaceAll(/ +/g, ' ')
    .replaceAll(/ $/gm, '')
}

test.each([
  ['status', ['status']],
  [`show 'shop → web' done`, ['show', 'shop → web', 'done']],
  [`show 'shop → web' 'in doubt'`, ['show', 'shop → web', 'in doubt']],
  [`next 'shop → web' 'left behind'`, ['next', 'shop → web', 'left behind']],
  [`next 'shop → web' 'in doubt'`, ['next', 'shop → web', 'in doubt']],
])('pawl %s', async (command, argv) => {
  const { out } = await pawlOn(database, ...argv)
  expect(withoutTimes(out)).toBe(withoutTimes(shown(command)))
})
