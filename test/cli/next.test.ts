import { afterAll, beforeAll, expect, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import { engineOn, fill } from './filled-database.js'
import { pawlOn } from './pawl.js'

let database: TestDatabase
beforeAll(async () => {
  database = await TestDatabase.create()
  await fill(database)
})
afterAll(() => database.drop())

const rows = () => database.rows('SELECT key, revision, fence FROM pawl.idempotency_keys ORDER BY key')

test('before any engine has recorded its pipelines, next says that it cannot say', async () => {
  const { exit, out } = await pawlOn(database, 'next', 'shop → web', 'left behind')
  expect(exit).toBe(0)
  expect(out).toMatch(/^It cannot be said .*\nNo engine has recorded version 2 of 'place-order'/)
})

test('next says of each key what a resume would do, and changes none', async () => {
  const engine = engineOn(database)
  await engine.recordPipelines()
  await engine.close()
  const before = await rows()
  for (const [key, exit, says] of [
    ['done', 0, /^A request with this key gets the stored response\. Nothing runs\.\n/],
    ['poison', 3, /^Nothing runs until a person .* phase 'order_imported'/],
    ['in doubt', 3, /^Nothing runs: a person has to say what became of its call/],
    ['resting', 0, /^It rests for 24 hours, unless its client sends it again before\. Then: /],
    ['left behind', 0, /call the provider again, under the provider key pawl_/],
  ] as const) {
    const end = await pawlOn(database, 'next', 'shop → web', key)
    expect(end, key).toMatchObject({ exit, err: '' })
    expect(end.out).toMatch(says)
    expect(end.out.trimEnd().split('\n')).toHaveLength(2)
  }
  expect(await rows()).toEqual(before)
})

test('with --json, next prints the move, also of a key by its id', async () => {
  const [row] = await database.rows<{ id: string }>(
    `SELECT id FROM pawl.idempotency_keys WHERE key = 'in doubt'`,
  )
  const { exit, out } = await pawlOn(database, 'next', '--id', row?.id ?? '', '--json')
  expect(exit).toBe(3)
  expect(JSON.parse(out)).toMatchObject({
    type: 'needs_a_person',
    reason: 'unknown_outcome',
    callsProvider: false,
  })
})

test('a point with control characters cannot take over the terminal', async () => {
  await database.rows(
    `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder, status, recovery_point)
     VALUES ('s', 'hostile', E'p\\x1b[2J', 1, 'x', sha256(''), 1, '{}', gen_random_uuid(), 'running', E'a\\nb\\x1b[31m')`,
  )
  const { out } = await pawlOn(database, 'next', 's', 'hostile')
  // oxlint-disable-next-line no-control-regex -- they are what is looked for
  expect(out).not.toMatch(/[\u0000-\u0009\u000B-\u001F\u007F]/)
  expect(out).toContain(String.raw`\u001b[2J`)
})
