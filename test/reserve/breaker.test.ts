import { connect, createServer, type AddressInfo, type Server } from 'node:net'
import { once } from 'node:events'
import { type EngineOptions, type Outcome, respond, StoreAwayError } from '@pawl/core'
import { type DevPostgres, startPostgres } from '@pawl/dev-postgres'
import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { gate, hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

/** Longer than any test takes. */
const NEVER_MS = 3_600_000
const FAILURES = 5

const started: string[] = []
const noted = pipeline<string>({ name: 'noted', version: 1 }).finish(({ input }) => {
  started.push(input)
  return respond(201, { input })
})

// It has a server of its own, since the one that other tests use must not go away.
let postgres: DevPostgres
let database: TestDatabase
beforeAll(async () => {
  postgres = await startPostgres()
  database = await TestDatabase.createNew(postgres.url)
}, 60_000)
afterAll(async () => {
  await database.drop()
  await postgres.stop()
})

function engineOn(pool: pg.Pool, options: Partial<EngineOptions<Database>> = {}) {
  const engine = createEngine({ pool, pipelines: [noted], schema: database.schema, ...options })
  onTestFinished(() => engine.close({ timeoutMs: 0 }))
  const execute = (key: string) => engine.execute(noted, { scope: 's', key, input: key })
  return { engine, execute }
}

const isRefused = (outcome: Outcome) =>
  outcome.type === 'unavailable' && outcome.error instanceof StoreAwayError

/** Stands where the server should be, and counts who comes. */
async function nobodyThere(): Promise<{ url: string; attempts: () => number; server: Server }> {
  let attempts = 0
  const server = createServer((socket) => {
    attempts++
    socket.destroy()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  return { url: `postgresql://postgres@127.0.0.1:${port}/pawl`, attempts: () => attempts, server }
}

test('of a thousand requests to a database that is away, only the first few try to connect', async () => {
  const { url, attempts } = await nobodyThere()
  const pool = new pg.Pool({ connectionString: url })
  const announced = hear('pawl:breaker')
  const { execute } = engineOn(pool, { breaker: { failures: FAILURES, probeMs: NEVER_MS } })
  const outcomes: Outcome[] = []
  for (let request = 0; request < 1_000; request++) outcomes.push(await execute(`away-${request}`))
  expect(outcomes.filter(({ type }) => type !== 'unavailable')).toEqual([])
  expect(outcomes.filter(isRefused)).toHaveLength(1_000 - FAILURES)
  expect(attempts()).toBe(FAILURES)
  expect(started).toEqual([])
  expect(announced.map(({ state }) => state)).toEqual(['opened'])
})

test('without a breaker, each of them tries', async () => {
  const { url, attempts } = await nobodyThere()
  const { execute } = engineOn(new pg.Pool({ connectionString: url }), { breaker: false })
  for (let request = 0; request < 3 * FAILURES; request++) await execute(`away-${request}`)
  expect(attempts()).toBe(3 * FAILURES)
})

test('an open breaker also answers enqueue, resume and inspect, without asking', async () => {
  const { url, attempts } = await nobodyThere()
  const pool = new pg.Pool({ connectionString: url })
  const { engine, execute } = engineOn(pool, { breaker: { failures: 1, probeMs: NEVER_MS } })
  await execute('opens it')
  const refused = { type: 'unavailable', error: { code: 'PAWL_STORE_AWAY' } }
  expect(await engine.enqueue(noted, { scope: 's', key: 'k', input: 'k' })).toMatchObject(refused)
  expect(await engine.resume('01890000-0000-7000-8000-000000000000')).toMatchObject(refused)
  await expect(engine.inspect('s', 'k')).rejects.toMatchObject({ code: 'PAWL_STORE_AWAY' })
  expect(attempts()).toBe(1)
})

test('the first request that may look after the database has come back goes through, and all that follow', async () => {
  const there = new URL(postgres.url)
  let away = true
  const server = createServer((socket) => {
    if (away) return void socket.destroy()
    const onward = connect(Number(there.port), there.hostname)
    for (const one of [socket, onward]) one.on('error', () => {})
    socket.pipe(onward).pipe(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(postgres.url)
  url.port = String((server.address() as AddressInfo).port)
  const pool = database.pool({ connectionString: url.href })
  const announced = hear('pawl:breaker')
  const { execute } = engineOn(pool, { breaker: { failures: FAILURES, probeMs: 500 } })
  onTestFinished(async () => {
    await pool.end()
    server.close()
  })

  for (let request = 0; request < 2 * FAILURES; request++) await execute(`back-${request}`)
  away = false
  const [now, realNow] = [performance.now(), performance.now.bind(performance)]
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now)
  expect(isRefused(await execute('back'))).toBe(true)
  // The interval passes.
  clock.mockImplementation(() => realNow() + 1_000)
  expect(await execute('back')).toMatchObject({ type: 'completed' })
  const all = await Promise.all(Array.from({ length: 20 }, (_, request) => execute(`again-${request}`)))
  expect(all.filter(({ type }) => type !== 'completed')).toEqual([])
  clock.mockRestore()
  expect(announced.map(({ state }) => state)).toEqual(['opened', 'half_open', 'closed'])
  expect(announced.at(-1)).toMatchObject({ failures: FAILURES, refused: FAILURES + 1 })
})

test('a pool that the application keeps busy opens nothing, however long', async () => {
  const announced = hear('pawl:breaker')
  const pool = database.pool({ max: 1 })
  const { execute } = engineOn(pool, { acquireTimeoutMs: 10, breaker: { failures: 1, probeMs: NEVER_MS } })
  const held = await pool.connect()
  for (let request = 0; request < FAILURES; request++) {
    const outcome = await execute(`busy-${request}`)
    expect(outcome).toMatchObject({
      type: 'unavailable',
      error: { code: 'PAWL_NO_CONNECTION', reason: 'busy' },
    })
  }
  held.release()
  expect(await execute('busy-no-more')).toMatchObject({ type: 'completed' })
  expect(announced).toEqual([])
})

test('nor does its own time-out of the pool', async () => {
  const pool = database.pool({ max: 1 })
  const { execute } = engineOn(pool, { breaker: { failures: 1, probeMs: NEVER_MS } })
  const held = await pool.connect()
  pool.options.connectionTimeoutMillis = 10
  expect(await execute('busy-there')).toMatchObject({ type: 'unavailable', error: { reason: 'busy' } })
  held.release()
  pool.options.connectionTimeoutMillis = 0
  expect(await execute('busy-there')).toMatchObject({ type: 'completed' })
})

/** A process of a connection that was just closed may end meanwhile. */
function signalIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Stops every process of the server: it accepts connections, and never answers. */
async function freeze(): Promise<() => void> {
  const sql = `SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`
  const pids = (await database.rows<{ pid: number }>(sql)).map(({ pid }) => pid)
  // The server itself last: it would start others.
  const all = [...pids, ...(postgres.pid === null ? [] : [postgres.pid])]
  const send = (signal: NodeJS.Signals) => {
    for (const pid of all) signalIfThere(pid, signal)
  }
  send('SIGSTOP')
  onTestFinished(() => send('SIGCONT'))
  return () => send('SIGCONT')
}

test.each([
  ['new connections are', 10, false],
  ['the only connection there is', 1, false],
  ['a connection in use, and new ones, are', 1, true],
])('a frozen database opens it too: %s never answered', async (_, max, isWarm) => {
  const announced = hear('pawl:breaker')
  const pool = database.pool({ max })
  // A statement may take as long as its time-out, and two seconds more.
  const patience = {
    acquireTimeoutMs: 1_000,
    defaults: { statementTimeoutMs: 1_000, lockTimeoutMs: 500, idleTimeoutMs: 1_000 },
  }
  const { execute } = engineOn(pool, { ...patience, breaker: { failures: 3, probeMs: 1 } })
  if (isWarm) expect(await execute(`${max}-warm`)).toMatchObject({ type: 'completed' })
  const thaw = await freeze()
  const asking = (request: number) => execute(`frozen-${max}-${isWarm}-${request}`)
  // They keep coming, as clients do.
  for (let round = 0; announced.length === 0; round++) {
    const outcomes = await Promise.all([0, 1, 2].map((request) => asking(3 * round + request)))
    expect(new Set(outcomes.map(({ type }) => type))).toEqual(new Set(['unavailable']))
  }
  thaw()
  let outcome: Outcome
  do outcome = await execute(`thawed-${max}-${isWarm}`)
  while (outcome.type === 'unavailable')
  expect(outcome).toMatchObject({ type: 'completed' })
  expect(announced.at(-1)).toMatchObject({ state: 'closed' })
})

test('a request that looks and hangs keeps nobody from looking', async () => {
  const pool = database.pool({ max: 4 })
  const announced = hear('pawl:breaker')
  const { execute } = engineOn(pool, { acquireTimeoutMs: NEVER_MS, breaker: { failures: 1, probeMs: 1 } })
  const { url } = await nobodyThere()
  const original = pool.options.connectionString
  pool.options.connectionString = url
  await execute('opens it')
  pool.options.connectionString = original
  const thaw = await freeze()
  const looks = []
  while (announced.filter(({ state }) => state === 'half_open').length < 3) {
    const look = execute(`hangs-${looks.length}`)
    looks.push(look)
    // It is answered in this turn, or it hangs.
    await new Promise(setImmediate)
  }
  thaw()
  const outcomes = await Promise.all(looks)
  expect(outcomes.filter(({ type }) => type === 'completed')).toHaveLength(3)
})

test('what runs is not affected: its phases go on, and what the database answers them closes the breaker', async () => {
  const [inside, goOn] = [gate(), gate()]
  const slow = pipeline<string>({ name: 'slow', version: 1 })
    .local('first', async ({ tx }) => {
      inside.open()
      await goOn.opened
      await tx.selectNoFrom((of) => of.val(1).as('one')).execute()
    })
    .finish(() => respond(201))
  const pool = database.pool({ max: 2 })
  const announced = hear('pawl:breaker')
  const { engine, execute } = engineOn(pool, {
    pipelines: [noted, slow],
    breaker: { failures: 1, probeMs: NEVER_MS },
  })
  const running = engine.execute(slow, { scope: 's', key: 'slow', input: 'slow' })
  await inside.opened
  const { url } = await nobodyThere()
  const original = pool.options.connectionString
  pool.options.connectionString = url
  expect(await execute('beside')).toMatchObject({
    type: 'unavailable',
    error: { code: 'PAWL_NO_CONNECTION' },
  })
  expect(isRefused(await execute('beside'))).toBe(true)
  pool.options.connectionString = original
  goOn.open()
  expect(await running).toMatchObject({ type: 'completed' })
  expect(await execute('beside')).toMatchObject({ type: 'completed' })
  expect(announced.map(({ state }) => state)).toEqual(['opened', 'closed'])
})
