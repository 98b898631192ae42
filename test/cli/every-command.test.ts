import { randomUUID } from 'node:crypto'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { IS_DEEP } from '../support/amounts.js'
import { TestDatabase } from '../support/test-database.js'
import { type End, pawl, pawlProcess } from './pawl.js'

/**
 * Every command once: on an empty database, some of them as real processes, and where the tables or the database are
 * missing. `npm run test:deep` starts a process for each.
 */

let database: TestDatabase
/** What doctor ends with where at most the server is wrong: that of a test run may well run without fsync. */
let doctorsExit: number
beforeAll(async () => {
  database = await TestDatabase.create()
  const [row] = await database.rows<{ safe: boolean }>(
    `SELECT bool_and(setting = 'on') AS safe FROM pg_settings
      WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')`,
  )
  doctorsExit = row?.safe === true ? 0 : 3
})
afterAll(() => database.drop())

const WINDOW = ['--from', '2026-01-01', '--to', '2026-02-01']
const REASON = ['--reason', 'to see']

interface Expected {
  readonly argv: readonly string[]
  /** On an empty database. */
  readonly empty: { readonly exit: number; readonly says: string }
  readonly needsDatabase: boolean
  /** It runs until it is stopped, which happens at once in this process only. */
  readonly stays?: boolean
}

const COMMANDS: Readonly<Record<string, Expected>> = {
  migrate: { argv: [], empty: { exit: 0, says: 'is up to date' }, needsDatabase: true },
  doctor: { argv: [], empty: { exit: 0, says: 'schema' }, needsDatabase: true },
  status: { argv: [], empty: { exit: 0, says: 'Nothing needs a person' }, needsDatabase: true },
  list: { argv: [], empty: { exit: 0, says: 'No key matches' }, needsDatabase: true },
  show: { argv: ['rider', 'k'], empty: { exit: 1, says: 'no key k in scope rider' }, needsDatabase: true },
  next: { argv: ['rider', 'k'], empty: { exit: 1, says: 'no key k in scope rider' }, needsDatabase: true },
  dead: { argv: [], empty: { exit: 0, says: 'No job is dead' }, needsDatabase: true },
  console: {
    argv: ['--port', '0'],
    empty: { exit: 0, says: 'http://127.0.0.1:' },
    needsDatabase: true,
    stays: true,
  },
  unstick: {
    argv: ['rider', 'k', ...REASON],
    empty: { exit: 1, says: 'There is no key' },
    needsDatabase: true,
  },
  revoke: {
    argv: ['rider', 'k', ...REASON],
    empty: { exit: 1, says: 'There is no key' },
    needsDatabase: true,
  },
  answer: {
    argv: ['rider', 'k', ...REASON, '--status', '410'],
    empty: { exit: 1, says: 'There is no key' },
    needsDatabase: true,
  },
  extend: {
    argv: ['rider', 'k', ...REASON, '--for', '30d'],
    empty: { exit: 1, says: 'There is no key' },
    needsDatabase: true,
  },
  forget: {
    argv: ['rider', 'k', ...REASON],
    empty: { exit: 1, says: 'There is no key' },
    needsDatabase: true,
  },
  requeue: { argv: ['--all', ...REASON], empty: { exit: 0, says: 'Requeued 0 jobs' }, needsDatabase: true },
  reap: { argv: [], empty: { exit: 0, says: 'Deleted keys' }, needsDatabase: true },
  erase: {
    argv: ['--scope', 'rider', ...REASON],
    empty: { exit: 0, says: 'Deleted keys' },
    needsDatabase: true,
  },
  drain: {
    argv: ['create-ride@1'],
    empty: { exit: 0, says: 'is in flight.\nNo key of' },
    needsDatabase: true,
  },
  reconcile: {
    argv: ['no-records.mjs', ...WINDOW],
    empty: { exit: 0, says: 'agree' },
    needsDatabase: true,
  },
  diagram: { argv: ['pipelines.mjs'], empty: { exit: 0, says: 'stateDiagram-v2' }, needsDatabase: false },
  size: {
    argv: ['--rate', '500', '--retention', '24h', '--body', '2kB'],
    empty: { exit: 0, says: 'Size for 500 new requests/s' },
    needsDatabase: false,
  },
  help: { argv: [], empty: { exit: 0, says: 'Usage: pawl' }, needsDatabase: false },
}

/** Processes of their own: one that succeeds, one that fails, one that loads a module, and one without a database. */
const AS_PROCESSES = ['status', 'show', 'reconcile', 'help']

const onDatabase = Object.entries(COMMANDS).filter(([, { needsDatabase }]) => needsDatabase)

test('no command is left out', async () => {
  const { commands } = JSON.parse((await pawl(['help', '--json'])).out) as { commands: { name: string }[] }
  expect(commands.map(({ name }) => name)).toEqual(Object.keys(COMMANDS))
})

/** An error is one line, without a stack. */
function expectOneLine({ out, err }: End): void {
  expect(out).toBe('')
  expect(err).toMatch(/^pawl: [^\n]+\n$/)
  expect(err).not.toMatch(/\n\s+at |\bError:/)
}

describe('on an empty database', () => {
  test.each(Object.entries(COMMANDS))('%s', async (name, { argv, empty, stays = false }) => {
    const env = { DATABASE_URL: database.url }
    const asProcess = (IS_DEEP && !stays) || AS_PROCESSES.includes(name)
    const all = [name, ...argv, '--schema', database.schema]
    const end = await (asProcess ? pawlProcess(all, env) : pawl(all, { env }))
    expect(end).toMatchObject({ exit: name === 'doctor' ? doctorsExit : empty.exit })
    expect(end.out + end.err).toContain(empty.says)
    if (end.exit === 1) expectOneLine(end)
    else expect(end.err).toBe(stays ? 'The console runs until Ctrl-C.\n' : '')
    // oxlint-disable-next-line no-control-regex -- no colour where nobody looks
    expect(end.out).not.toMatch(/[\u0000-\u0009\u000B-\u001F]/)
  })

  test.each(Object.entries(COMMANDS))('%s --json', async (name, { argv, empty }) => {
    const env = { DATABASE_URL: database.url }
    const end = await pawl([name, ...argv, '--json', '--schema', database.schema], { env })
    expect(end.exit).toBe(name === 'doctor' ? doctorsExit : empty.exit)
    const [said, silent] = empty.exit === 0 ? [end.out, end.err] : [end.err, end.out]
    expect(JSON.parse(said)).toEqual(expect.any(Object))
    expect(silent).toBe('')
  })
})

test('doctor finds nothing wrong with an empty database', async () => {
  const env = { DATABASE_URL: database.url }
  const { out } = await pawl(['doctor', '--json', '--schema', database.schema], { env })
  const { findings } = JSON.parse(out) as { findings: { check: string; level: string }[] }
  const wrong = findings.filter(({ level }) => level !== 'ok').map(({ check }) => check)
  expect([...new Set(wrong)]).toEqual(doctorsExit === 0 ? [] : ['durability'])
})

describe('on an unmigrated database', () => {
  test.each(onDatabase.filter(([name]) => name !== 'migrate'))('%s', async (name, { argv }) => {
    const schema = `${database.schema}_none`
    const end = await pawl([name, ...argv, '--schema', schema], { env: { DATABASE_URL: database.url } })
    expect(end.exit).toBe(1)
    expect(end.err).toContain(`pawl migrate --schema ${schema}`)
    expectOneLine({ ...end, out: '' })
  })

  test('migrate creates the tables, then finds them', async () => {
    const schema = `${database.schema}_new`
    const migrate = () => pawlProcess(['migrate', '--schema', schema], { DATABASE_URL: database.url })
    expect(await migrate()).toMatchObject({
      exit: 0,
      out: expect.stringMatching(/^Applied \d+ migrations? to/),
    })
    expect(await migrate()).toMatchObject({ exit: 0, out: `Schema ${schema} is up to date.\n` })
    await database.admin.query(`DROP SCHEMA ${schema} CASCADE`)
  })

  test('migrate --print needs no database, and prints the SQL that creates the tables', async () => {
    const schema = `${database.schema}_printed`
    const { exit, out } = await pawlProcess(['migrate', '--print', '--schema', schema], {})
    expect(exit).toBe(0)
    await database.admin.query(out)
    expect(await pawl(['status', '--schema', schema], { env: { DATABASE_URL: database.url } })).toMatchObject(
      { exit: 0 },
    )
    await database.admin.query(`DROP SCHEMA ${schema} CASCADE`)
  })
})

/** A port that nobody listens on: it was free a moment ago. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}

describe('when the database is not available', () => {
  test.each(onDatabase)('%s', async (name, { argv }) => {
    const DATABASE_URL = `postgresql://pawl:sesame@127.0.0.1:${await closedPort()}/pawl`
    const end = await pawl([name, ...argv], { env: { DATABASE_URL } })
    expect(end.exit).toBe(1)
    expectOneLine(end)
    expect(end.err).toContain('The database cannot be reached: connect ECONNREFUSED')
    expect(end.err).not.toContain('sesame')
  })

  test('no message contains the password, not even that of a module', async () => {
    const DATABASE_URL = 'postgresql://pawl:sesame@127.0.0.1/pawl'
    const { exit, err } = await pawlProcess(['diagram', 'leaks.mjs'], { DATABASE_URL })
    expect(exit).toBe(1)
    expect(err).toContain('cannot use')
    expect(err).not.toContain('sesame')
  })

  test('pawl says which it was: no such host, no such database, or a server that hangs up', async () => {
    const hangsUp = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
    await once(hangsUp, 'listening')
    const { port } = hangsUp.address() as { port: number }
    const other = new URL(database.url)
    other.pathname = `/no_${randomUUID().slice(0, 8)}`
    const urls = [
      'postgresql://u:sesame@no-such-host.invalid/d',
      other.href,
      `postgresql://u:sesame@127.0.0.1:${port}/d`,
    ]
    for (const url of urls) {
      const end = await pawl(['status', '--json', '--database-url', url])
      expect(end, url).toMatchObject({ exit: 1, out: '' })
      expect(JSON.parse(end.err), url).toMatchObject({ error: { code: 'database_unavailable' } })
      expect(end.err).not.toContain('sesame')
    }
    hangsUp.close()
  })
})
