import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { afterAll, afterEach, describe, expect, inject, test } from 'vitest'
import { amountOf, onlyDeep } from '../support/amounts.js'
import { LAYOUT, onServer, RIDES_DIST, until } from '../support/rides-processes.js'

/** Under a minute is what the demo promises; a busy machine gets four times that. */
const STORY_TIMEOUT_MS = 240_000

/** `RIDES_CHAOS=2000 RIDES_SEED=7 npm run test:deep -- rides/demo` runs the same with more rides, or another seed. */
const CHAOS_RIDES = amountOf('chaosRides')
const CHAOS_SEED = Number(process.env['RIDES_SEED'] ?? 1)
/** With eight clients and processes that are killed every second, a ride takes a quarter of a second; a busy machine is slower. */
const CHAOS_TIMEOUT_MS_PER_RIDE = 5_000

// A separate folder, so that only the demo can leave anything behind in it. PostgreSQL may run as another user, who needs access.
const folder = await mkdtemp(join(tmpdir(), 'pawl-test-demo-'))
await chmod(folder, 0o755)
afterAll(() => rm(folder, { recursive: true, force: true }))
const databases = () => onServer(`SELECT datname FROM pg_database WHERE datname LIKE 'rides%'`)

interface Verdict {
  readonly done: string
  readonly saw: string
  readonly charges: number
  readonly rides: number
  readonly ok: boolean
  readonly wrong: readonly string[]
}

/** The demo as a group of processes, so that a signal can reach all of it, as Ctrl-C does. */
function startDemo(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const script = join(RIDES_DIST, 'demo/main.js')
  // No lifeline here, which would keep it from ending: it ends by itself within a minute, with everything that it started.
  const child = spawn(process.execPath, [script, ...args], {
    env: { PATH: process.env['PATH'] ?? '', TMPDIR: folder, LAYOUT, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  const group = child.pid ?? 0
  groups.push(group)
  const out: string[] = []
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk.toString()))
  const ended = Promise.all([once(child, 'close'), text(child.stderr)]).then(([[code, signal], errors]) => ({
    how: String((signal ?? code) as string | number),
    out: out.join(''),
    errors,
  }))
  const says = (words: string) => until(`'${words}'`, () => out.join('').includes(words))
  return { group, ended, says, said: () => out.join('') }
}

const groups: number[] = []

/** The pids of all processes that are children of these, or theirs; and of those in the same group. */
async function processesOf(group: number): Promise<number[]> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid=,pgid='])
  const all = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
  const found = new Set([group])
  for (const [pid = 0, parent = 0, itsGroup = 0] of all.toSorted(([one = 0], [other = 0]) => one - other))
    if (itsGroup === group || found.has(parent)) found.add(pid)
  return all.map(([pid = 0]) => pid).filter((pid) => found.has(pid))
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** The PostgreSQL that npm brought is copied once per temporary folder, and stays. */
async function leftBehind(): Promise<string[]> {
  return (await readdir(folder)).filter((name) => !name.startsWith('pawl-postgres-binaries'))
}

/** Processes end on their own a moment after the demo, when it was killed. */
async function expectNothingLeft(pids: readonly number[]): Promise<void> {
  await until('the end of all processes', () => !pids.some(isAlive))
  await until('the end of the folders', async () => (await leftBehind()).length === 0)
}

afterEach(async () => {
  try {
    for (const group of groups.splice(0)) await expectNothingLeft(await processesOf(group))
  } finally {
    // The next test must not find logs that a failed run has kept.
    for (const name of await leftBehind()) await rm(join(folder, name), { recursive: true, force: true })
  }
})

onlyDeep(() => {
  test(
    'the demo tells its story and ends with 0; its JSON says that everything held',
    { timeout: STORY_TIMEOUT_MS },
    async () => {
      const { how, out, errors } = await startDemo(['--json']).ended
      expect({ how, errors }).toEqual({ how: '0', errors: '' })
      const { ok, verdicts, error } = JSON.parse(out) as { ok: boolean; verdicts: Verdict[]; error: unknown }
      expect({ ok, error }).toEqual({ ok: true, error: null })
      expect(verdicts.filter((verdict) => !verdict.ok || verdict.wrong.length > 0)).toEqual([])
      expect(verdicts.map(({ done, charges, rides }) => `${done}: ${charges} of ${rides}`)).toEqual([
        'nothing; sent twice: 1 of 1',
        'kill -9 after the charge: 1 of 1',
        'kill -9 after the key was reserved: 1 of 1',
        'kill -9 after ride_created: 1 of 1',
        'kill -9 after charge_created: 1 of 1',
        'kill -9 after finished, before the answer: 1 of 1',
        'kill -9, and again during recovery: 1 of 1',
        'frozen, overtaken, woken: 1 of 1',
        'two failures of the provider: 1 of 1',
        'card declined; sent twice: 0 of 1',
        'another rider sprays 40 keys: 3 of 3',
        'kill -9, and the client never retries: 1 of 1',
      ])
    },
  )
})

async function expectChaosToHold(rides: number, seed: number): Promise<void> {
  const before = await databases()
  const args = ['--chaos', String(rides), '--seed', String(seed), '--json']
  const { how, out, errors } = await startDemo(args, { DATABASE_URL: inject('databaseUrl') }).ended
  expect({ how, errors }).toEqual({ how: '0', errors: '' })
  const { ok, verdicts } = JSON.parse(out) as { ok: boolean; verdicts: Verdict[] }
  expect(verdicts.filter((verdict) => !verdict.ok || verdict.wrong.length > 0)).toEqual([])
  const sum = (what: 'charges' | 'rides') => verdicts.reduce((total, { [what]: count }) => total + count, 0)
  expect({ ok, charges: sum('charges'), rides: sum('rides') }).toEqual({ ok: true, charges: rides, rides })
  // Another run on the same server may have dropped some.
  const names = before.map(({ datname }) => String(datname))
  expect(names).toEqual(expect.arrayContaining((await databases()).map(({ datname }) => String(datname))))
}

onlyDeep(() => {
  test(
    `chaos: ${CHAOS_RIDES} rides, each charged once, in a database that is dropped`,
    { timeout: STORY_TIMEOUT_MS + CHAOS_RIDES * CHAOS_TIMEOUT_MS_PER_RIDE },
    () => expectChaosToHold(CHAOS_RIDES, CHAOS_SEED),
  )
})

onlyDeep(() => {
  test(
    'with --console, rides go on while processes are killed, until Ctrl-C; the console shows them',
    { timeout: STORY_TIMEOUT_MS },
    async () => {
      const demo = startDemo(['--console', '--seed', '3'], { DATABASE_URL: inject('databaseUrl') })
      await demo.says('kill -9')
      const address = /The console, in one browser: (\S+)/.exec(demo.said())?.[1] ?? ''
      const entered = await fetch(address)
      const cookie = (entered.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
      const api = new URL('../api/flow', address)
      const flow = (await (await fetch(api, { headers: { cookie } })).json()) as {
        readonly pipelines: readonly { readonly name: string }[]
      }
      expect(flow.pipelines.map(({ name }) => name)).toContain('create-ride')
      process.kill(-demo.group, 'SIGINT')
      const { how, out, errors } = await demo.ended
      expect({ how, errors }).toEqual({ how: '0', errors: '' })
      expect(out).toMatch(/\d+ rides were watched to their end; all of them held\.\n$/)
    },
  )
})

test.each([
  [['--chaos', 'many']],
  [['--chaos', '0']],
  [['--seed', '1.5']],
  [['--faster']],
  [['now']],
  [['--json', '--console']],
])('wrong arguments (%j) end the demo with 2, and it prints its usage', async (args) => {
  const { how, out, errors } = await startDemo(args).ended
  expect({ how, out }).toEqual({ how: '2', out: '' })
  expect(errors).toContain('npm run rides -- [--json]')
})

onlyDeep(() => {
  describe('nothing is left behind', () => {
    test(
      'when Ctrl-C reaches all processes in the middle of the story',
      { timeout: STORY_TIMEOUT_MS },
      async () => {
        const demo = startDemo([])
        await demo.says('its answer is still on the way')
        const pids = await processesOf(demo.group)
        process.kill(-demo.group, 'SIGINT')
        expect((await demo.ended).how).toBe('130')
        await expectNothingLeft(pids)
      },
    )

    test('when the demo is killed in the middle of the story', { timeout: STORY_TIMEOUT_MS }, async () => {
      const demo = startDemo([])
      await demo.says('its answer is still on the way')
      const pids = await processesOf(demo.group)
      // The demo, PostgreSQL and its supervisor, the stand-in, the worker and the API, at least.
      expect(pids.length).toBeGreaterThanOrEqual(6)
      process.kill(demo.group, 'SIGKILL')
      expect((await demo.ended).how).toBe('SIGKILL')
      await expectNothingLeft(pids)
    })
  })
})
