import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { respond } from '@pawl/core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { dieAt } from '../support/die-at.js'
import { createEngine, pipeline } from '../support/rides.js'
import { seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'
import { envOf, pawl, pawlOn, spawnPawl } from './pawl.js'

/** Keys and scopes come from clients: what is in them must not reach a terminal as it is. */

const NAMES = [
  'plain',
  'two words',
  'alice → "bob" it\'s',
  'clear\u001B[2J\u001B[1;1Hscreen',
  'title\u001B]0;owned\u0007',
  'c1 csi \u009B31m red',
  'new\nline\r\u2028and\u2029more',
  'tab\tbed\u007F',
  'right\u202Eto left\u2066',
  'zero\u200Bwidth\uFEFF',
  'tag\u{E0041}',
  'back\\slash $HOME `id` $(id)',
  '東京 🚕 é',
  '--json',
  "'",
]

/** Anything that a terminal does not simply print, except a line break. */
const UNSAFE = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u

let database: TestDatabase
beforeAll(async () => {
  database = await TestDatabase.create()
  const failing = pipeline<null>({ name: 'failing', version: 1, maxAttempts: 1 })
    .local('never', ({ scope }) => {
      throw new Error(`cannot serve ${scope}`)
    })
    .finish(() => respond(204))
  const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [failing] })
  for (const name of NAMES) {
    expect(await engine.execute(failing, { scope: name, key: name, input: null })).toMatchObject({
      type: 'stuck',
    })
  }
  await engine.close()
})
afterAll(() => database.drop())

test('list prints one safe line per key, and its columns are aligned', async () => {
  const { exit, out } = await pawlOn(database, 'list')
  expect(exit).toBe(0)
  expect(out).not.toMatch(UNSAFE)
  const lines = out.trimEnd().split('\n')
  expect(lines).toHaveLength(1 + NAMES.length)
  for (const line of lines.slice(1)) expect(line).toContain('failing@1')
  const column = lines[0]?.indexOf('PIPELINE')
  const narrow = lines.filter((line) => !line.includes('東京'))
  for (const line of narrow.slice(1)) expect(line.indexOf('failing@1')).toBe(column)
})

test('--json is just as safe, and exact', async () => {
  const { out } = await pawlOn(database, 'list', '--json')
  expect(out).not.toMatch(UNSAFE)
  const { keys } = JSON.parse(out) as { keys: { scope: string; key: string; lastError: string }[] }
  expect(keys.map(({ scope }) => scope)).toEqual(NAMES)
  expect(keys.map(({ key }) => key)).toEqual(NAMES)
})

describe('long names', () => {
  let own: TestDatabase
  const LONG = `${'client-made-this-up-'.repeat(11)}and-ends-in-7`
  beforeAll(async () => {
    own = await TestDatabase.create()
    await seedKey(own, { scope: 'shop', key: LONG, status: 'stuck' })
    await seedKey(own, { scope: 'shop', key: `\u001B[2J${LONG}`, status: 'stuck' })
    await seedKey(own, { scope: 'shop', key: randomUUID(), status: 'stuck' })
  })
  afterAll(() => own.drop())

  const list = (isTTY: boolean, ...argv: string[]) =>
    pawl(['list', '--schema', own.schema, ...argv], { isTTY, env: { ...envOf(own), NO_COLOR: '1' } })

  test('are shortened on a terminal so that their ends are visible, and list says how to see them whole', async () => {
    const { out } = await list(true)
    const [head = '', first = '', second = '', third = ''] = out.split('\n')
    for (const line of [head, first, second, third]) expect(line.length).toBeLessThan(140)
    expect(first).toMatch(/^shop +client-made-.+…\S+and-ends-in-7 +seeded@1 /)
    expect(second).toMatch(/^shop +\\u001b\[2Jclient-.+…\S+and-ends-in-7 +seeded@1 /)
    expect(third).toMatch(/^shop +[0-9a-f-]{36} +seeded@1 /)
    expect(out).toContain('--ids shows the ids')
    const withIds = (await list(true, '--ids')).out
    expect(withIds).not.toContain('--ids')
    const [, row = ''] = withIds.split('\n')
    const shown = await pawlOn(own, 'show', '--json', '--id', row.slice(0, 36))
    expect(JSON.parse(shown.out)).toMatchObject({ key: { key: LONG } })
  })

  test('are whole in a pipe, and in JSON', async () => {
    const { out } = await list(false)
    expect(out).toContain(` ${LONG} `)
    expect(out).not.toContain('…')
    expect(out).not.toContain('--ids')
    const { keys } = JSON.parse((await list(true, '--json')).out) as { keys: { key: string }[] }
    expect(keys.map(({ key }) => key)).toContain(LONG)
  })
})

test.each(NAMES)('show, unstick and the error for %j are safe', async (name) => {
  const shown = await pawlOn(database, 'show', '--', name, name)
  expect(shown).toMatchObject({ exit: 0, err: '' })
  expect(shown.out).not.toMatch(UNSAFE)
  const missing = await pawlOn(database, 'show', '--', name, 'no such key')
  expect(missing.exit).toBe(1)
  expect(missing.err).not.toMatch(UNSAFE)
  expect(missing.err.trimEnd()).not.toContain('\n')
})

test('arguments are safe in errors, too', async () => {
  for (const argv of [
    ['\u001B[2J'],
    ['status', '\u001B[2J'],
    ['list', '--\u001B[2J'],
    ['drain', '\u001B[2J'],
  ]) {
    const { exit, err } = await pawlOn(database, ...argv)
    expect(exit).toBe(2)
    expect(err).not.toMatch(UNSAFE)
  }
})

/** The words that bash makes of a command line. */
function wordsInBash(command: string, locale: string): string[] {
  const inLocale = { encoding: 'utf8', env: { ...process.env, LC_ALL: locale } } as const
  return execFileSync('bash', ['-c', `printf '%s\\0' ${command}`], inLocale)
    .split('\0')
    .slice(0, -1)
}

test('the command that status prints names the same key in a shell of any locale', async () => {
  const slow = pipeline<null>({ name: 'slow', version: 1 })
    .foreign('called', { call: async () => null })
    .finish(() => respond(204))
  // One name for each kind of quoting, since each takes a crash.
  const names = ['alice → "bob" it\'s', 'new\nline \u202E\u{E0041}', 'back\\slash $HOME `id` $(id)', '--json']
  for (const name of names) {
    const request = { scope: name, key: `${name}.`, input: null }
    await dieAt(database, { pipelines: [slow] }, 'called/call#1:after', (doomed) =>
      doomed.execute(slow, request),
    )
    const { out, err } = await pawlOn(database, 'status')
    expect(err).toBe('')
    expect(out).not.toMatch(UNSAFE)
    expect(out).toMatch(/ran out .* ago: pawl show /)
    const [, command = ''] = /ran out .* ago: pawl (show .*)$/m.exec(out) ?? []
    const [show = '', ...rest] = wordsInBash(command, 'C.UTF-8')
    // bash expands a character's number, such as \u202E, only in a UTF-8 locale; bytes mean the same in every locale.
    expect(wordsInBash(command, 'C')).toEqual([show, ...rest])
    const shown = await pawl([show, '--json', ...rest], { env: envOf(database) })
    expect(shown).toMatchObject({ exit: 0, err: '' })
    expect(JSON.parse(shown.out)).toMatchObject({ key: { scope: request.scope, key: request.key } })
    await database.rows('DELETE FROM pawl.idempotency_keys WHERE key = $1', [request.key])
  }
})

test('a reader that leaves early is not an error', async () => {
  const child = spawnPawl(['migrate', '--print'], {})
  // Before it can have written anything, so that every write fails.
  child.stdout.destroy()
  let err = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
  const [exit] = (await once(child, 'close')) as [number]
  expect({ exit, err }).toEqual({ exit: 0, err: '' })
})
