import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import { envOf, pawl, pawlProcess, spawnPawl } from './pawl.js'

/** `pawl console` as people start it: a process of its own, a real port. */

let database: TestDatabase
beforeAll(async () => {
  database = await TestDatabase.create()
})
afterAll(() => database.drop())

interface Console {
  readonly child: ChildProcessWithoutNullStreams
  /** The next line on standard output. */
  readonly line: () => Promise<string>
  /** What it said on standard error so far. */
  readonly err: () => string
  readonly exit: Promise<number>
}

function startConsole(...argv: string[]): Console {
  const child = spawnPawl(['console', '--port', '0', '--schema', database.schema, ...argv], envOf(database))
  onTestFinished(() => void child.kill('SIGKILL'))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  let err = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
  return {
    child,
    line: async () => String((await lines.next()).value),
    err: () => err,
    exit: once(child, 'close').then(([code]) => code as number),
  }
}

/** The cookie that a browser gets for an address. */
async function enter(address: string): Promise<{ readonly status: number; readonly cookie: string }> {
  const { status, headers } = await fetch(address)
  return { status, cookie: headers.getSetCookie()[0]?.split(';')[0] ?? '' }
}

const sessionOf = (address: string, cookie: string) =>
  fetch(new URL('../api/session', address), { headers: { cookie } })

describe('pawl console', () => {
  test('prints an address that signs in one browser once, then the next one, and ends with 0 on Ctrl-C', async () => {
    const { child, line, err, exit } = startConsole()
    const address = await line()
    expect(address).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/[\w-]{22}\/enter\/[\w-]{43}$/)
    expect((await sessionOf(address, '')).status).toBe(401)

    const first = await enter(address)
    expect(first.status).toBe(200)
    const session = await sessionOf(address, first.cookie)
    expect([session.status, await session.json()]).toMatchObject([
      200,
      { actor: 'anna@ops-1', canChange: true, schema: database.schema },
    ])
    expect((await enter(address)).status).toBe(401)

    const next = await line()
    expect(next).not.toBe(address)
    const second = await enter(next)
    expect((await sessionOf(address, second.cookie)).status).toBe(200)
    // The first one stays signed in.
    expect((await sessionOf(address, first.cookie)).status).toBe(200)

    // A page that listens does not keep it from ending.
    const stream = await fetch(new URL('../api/events', address), { headers: { cookie: first.cookie } })
    expect(stream.status).toBe(200)
    const reader = stream.body?.getReader()
    await reader?.read()
    child.kill('SIGINT')
    expect(await exit).toBe(0)
    expect(err()).toBe('The console runs until Ctrl-C.\n')
    await expect(fetch(address)).rejects.toThrow()
  })

  test.each(['SIGTERM', 'SIGHUP'] as const)('ends with 0 on %s', async (signal) => {
    const { child, line, exit } = startConsole()
    await line()
    child.kill(signal)
    expect(await exit).toBe(0)
  })

  test('with --read-only, nobody can change anything', async () => {
    const { child, line, exit } = startConsole('--read-only', '--actor', 'ben')
    const address = await line()
    const { cookie } = await enter(address)
    expect(await (await sessionOf(address, cookie)).json()).toMatchObject({
      actor: 'ben',
      canChange: false,
      canReveal: false,
    })
    child.kill('SIGINT')
    expect(await exit).toBe(0)
  })

  test('with --json, prints each address as an object', async () => {
    const { child, line, exit } = startConsole('--json')
    const { address } = JSON.parse(await line()) as { address: string }
    await enter(address)
    expect(JSON.parse(await line())).toEqual({ address: expect.stringContaining('/enter/') })
    child.kill('SIGINT')
    expect(await exit).toBe(0)
  })

  test('says where its port is taken', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void taken.close())
    await once(taken, 'listening')
    const { port } = taken.address() as { port: number }
    const argv = ['console', '--port', String(port), '--schema', database.schema]
    expect(await pawlProcess(argv, envOf(database))).toEqual({
      exit: 1,
      out: '',
      err: `pawl: Port ${port} is taken, perhaps by another console. Pass --port with another one, or 0 for any that is free.\n`,
    })
  })

  test.each([
    [['--trace-url', 'javascript:alert({traceId})'], /traceUrl is 'javascript/],
    [['--trace-url', 'https://tempo.example/'], /has '\{traceId\}' in it/],
    [['--read-url', 'sesame'], /readUrl/],
    [['--actor', ''], /actor/],
  ])('%o is wrong usage', async (argv, says) => {
    const end = await pawl(['console', '--port', '0', '--schema', database.schema, ...argv], {
      env: envOf(database),
    })
    expect(end).toMatchObject({ exit: 2, out: '', err: expect.stringMatching(says) })
    expect(end.err).not.toContain('sesame')
  })

  test('without a database, says how to name one', async () => {
    expect(await pawlProcess(['console'], {})).toMatchObject({
      exit: 2,
      out: '',
      err: expect.stringContaining('Set DATABASE_URL'),
    })
  })

  test('on tables that are not there, says what to run', async () => {
    const schema = `${database.schema}_none`
    expect(await pawlProcess(['console', '--schema', schema], envOf(database))).toMatchObject({
      exit: 1,
      out: '',
      err: expect.stringContaining(`pawl migrate --schema ${schema}`),
    })
  })
})
