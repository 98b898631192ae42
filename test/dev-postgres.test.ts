import { fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, watch } from 'node:fs'
import { access, readdir, readFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { migrate } from '@pawl/core'
import { startPostgres, type DevPostgres } from '@pawl/dev-postgres'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { firstUnlessDeep, onlyDeep } from './support/amounts.js'

const STARTER = fileURLToPath(new URL('./fixtures/postgres-starter.mjs', import.meta.url))

const started: DevPostgres[] = []

async function start(...args: Parameters<typeof startPostgres>): Promise<DevPostgres> {
  const postgres = await startPostgres(...args)
  started.push(postgres)
  return postgres
}

afterEach(async () => {
  await Promise.all(started.splice(0).map((postgres) => postgres.stop()))
})

/** Two servers that run side by side, for tests that leave them running: creating a server takes longer than most tests. */
let one: DevPostgres
let other: DevPostgres
beforeAll(async () => {
  ;[one, other] = await Promise.all([startPostgres(), startPostgres()])
})
afterAll(() => Promise.all([one.stop(), other.stop()]))

/** A session that expects to be ended by the server. */
async function connect(url: string): Promise<{ ended: Promise<void>; errors: Error[] }> {
  const client = new pg.Client({ connectionString: url })
  const errors: Error[] = []
  client.on('error', (error) => errors.push(error))
  const ended = new Promise<void>((resolve) => client.once('end', resolve))
  await client.connect()
  return { ended, errors }
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query<Record<string, unknown>>(sql)
    return rows
  } finally {
    await client.end()
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

async function untilGone(directory: string): Promise<void> {
  const watcher = watch(dirname(directory))
  while (existsSync(directory)) await once(watcher, 'change')
  watcher.close()
}

/** Resolves when the server has written a text to its log. */
async function untilLogged(directory: string, text: string): Promise<void> {
  const log = `${directory}/postgres.log`
  const watcher = watch(log)
  while (!readFileSync(log, 'utf8').includes(text)) await once(watcher, 'change')
  watcher.close()
}

/** Why a process that has started a server may end. */
const CAUSES = ['SIGKILL', 'SIGINT', 'SIGTERM', 'its own end'] as const

describe('startPostgres', () => {
  test('starts PostgreSQL 18 with the settings that tests rely on, and the given ones', async () => {
    const postgres = await start({ settings: { application_name: 'given', max_connections: '20' } })
    const [row] = await query(
      postgres.url,
      `select current_setting('server_version_num')::int / 10000 as version, current_setting('server_encoding') as encoding,
              current_setting('lc_messages') as messages, current_setting('fsync') as fsync,
              current_setting('synchronous_commit') as synchronous_commit, current_setting('listen_addresses') as listens,
              current_setting('max_connections') as max_connections, current_user as user, current_database() as database`,
    )
    expect(row).toEqual({
      version: 18,
      encoding: 'UTF8',
      messages: 'C',
      fsync: 'off',
      synchronous_commit: 'on',
      listens: '127.0.0.1',
      max_connections: '20',
      user: 'postgres',
      database: 'pawl',
    })
    expect(postgres.pid !== null && isAlive(postgres.pid)).toBe(true)
  })

  test('lets nobody in without the password, which differs from server to server', async () => {
    const url = new URL(one.url)
    expect(url.password).toMatch(/^[\w-]{43}$/)
    expect(url.password).not.toBe(new URL(other.url).password)
    const [row] = await query(one.url, 'select rolpassword as stored from pg_authid where rolcanlogin')
    expect(row?.['stored']).toMatch(/^SCRAM-SHA-256\$/)

    url.password = 'guessed'
    await expect(query(url.href, 'select 1')).rejects.toThrow('password authentication failed')
    // An empty one never gets as far as the server.
    for (const user of ['postgres', 'pawl', 'root']) {
      const client = new pg.Client({
        host: '127.0.0.1',
        port: one.port,
        user,
        database: 'pawl',
        password: '',
      })
      await expect(client.connect()).rejects.toThrow(/password/)
    }
    for (const left of await readdir(one.directory)) expect(['data', 'postgres.log']).toContain(left)
    expect(await readFile(`${one.directory}/postgres.log`, 'utf8')).not.toContain(new URL(one.url).password)
  })

  test('the role does not have the name of the schema of Pawl, where its own tables would otherwise end up', async () => {
    const pool = new pg.Pool({ connectionString: one.url })
    await migrate(pool)
    await pool.query('create table orders ()')
    const { rows } = await pool.query(
      `select relnamespace::regnamespace::text as schema from pg_class where relname = 'orders'`,
    )
    expect(rows).toEqual([{ schema: 'public' }])
    await pool.end()
  })

  test('runs several servers at once, each with its own data', async () => {
    await query(one.url, 'create table only_here ()')
    expect(one.port).not.toBe(other.port)
    await expect(query(other.url, 'table only_here')).rejects.toThrow('relation "only_here" does not exist')
  })

  onlyDeep(() => {
    test('keeps committed rows through a kill and a restart, on the same port', async () => {
      const firstPid = one.pid
      await query(one.url, 'create table kept as select 42 as answer')

      await one.kill()
      expect(one.pid).toBeNull()
      await expect(query(one.url, 'table kept')).rejects.toThrow('ECONNREFUSED')

      await one.restart()
      expect(one.pid).not.toBe(firstPid)
      expect(await query(one.url, 'table kept')).toEqual([{ answer: 42 }])
    })
  })

  onlyDeep(() => {
    test('restarts a running server, ending its sessions', async () => {
      const session = await connect(one.url)

      await one.restart()
      await session.ended
      expect(session.errors[0]?.message).toContain('terminating connection')
      expect(await query(one.url, 'select 1 as up')).toEqual([{ up: 1 }])
    })
  })

  test('stop ends the server, removes its files, and may be called again', async () => {
    const postgres = await start()
    const { pid, directory } = postgres
    await access(`${directory}/postgres.log`)

    await postgres.stop()
    expect(existsSync(directory)).toBe(false)
    expect(pid !== null && isAlive(pid)).toBe(false)
    await postgres.stop()
    await expect(postgres.restart()).rejects.toThrow('it has been stopped already')
  })

  onlyDeep(() => {
    test('stop after pool.end() does not terminate connections that are closing', async () => {
      const postgres = await start()
      const pool = new pg.Pool({ connectionString: postgres.url })
      const errors: string[] = []
      pool.on('error', (error) => errors.push(error.message))
      const { rows } = await pool.query<{ pid: number }>('select pg_backend_pid() as pid')
      const [backend] = rows as [{ pid: number }]
      // Frozen, it takes as long to close as it can take on a busy machine.
      process.kill(backend.pid, 'SIGSTOP')
      await pool.end()

      const stopped = postgres.stop()
      await untilLogged(postgres.directory, 'shutdown request')
      process.kill(backend.pid, 'SIGCONT')
      await stopped
      expect(errors).toEqual([])
    })
  })

  onlyDeep(() => {
    test('stop ends the sessions that do not close by themselves', async () => {
      const postgres = await start()
      const session = await connect(postgres.url)
      await postgres.stop()
      await session.ended
      expect(session.errors[0]?.message).toContain('terminating connection')
    })
  })

  onlyDeep(() => {
    test('says why it cannot start, with the end of the log', async () => {
      const taken = createServer().listen(0, '127.0.0.1')
      await once(taken, 'listening')
      const { port } = taken.address() as AddressInfo
      await expect(startPostgres({ port })).rejects.toThrow('Address already in use')
      taken.close()

      await expect(startPostgres({ settings: { no_such_setting: '1' } })).rejects.toThrow(
        'unrecognized configuration parameter "no_such_setting"',
      )
    })
  })

  test.each(firstUnlessDeep(1, CAUSES))(
    'after %s of the starter, the server and its files are gone',
    async (cause) => {
      const starter = fork(STARTER, { execArgv: [] })
      const [server] = (await once(starter, 'message')) as [{ url: string; pid: number; directory: string }]
      const session = await connect(server.url)
      expect(await readdir(server.directory)).toEqual(['data', 'postgres.log'])

      if (cause === 'its own end') starter.send('end')
      else starter.kill(cause)

      await session.ended
      await untilGone(server.directory)
      expect(isAlive(server.pid)).toBe(false)
    },
  )
})
