import pg from 'pg'
import { expect, inject, test } from 'vitest'
import { connectionOf } from '../../packages/crash-kit/src/database/connection.js'
import { connect, kitWith, poolOf, values } from './kit-with.js'

/** What a connection of the actor reports about itself. */
async function sessionOf(config: pg.PoolConfig): Promise<unknown> {
  const client = new pg.Client(config)
  await client.connect()
  const { rows } = await client.query(
    `SELECT current_setting('application_name') AS name, current_setting('search_path') AS path,
            current_setting('statement_timeout') AS timeout, current_setting('work_mem') AS memory`,
  )
  await client.end()
  return rows[0]
}

test("an actor connects as the application does, under its own name and with the kit's schema first", async () => {
  const kit = await kitWith(
    '',
    poolOf({ application_name: 'theirs', statement_timeout: 1_234, options: '-c work_mem=77MB' }),
  )
  expect(await sessionOf(kit.poolConfig('client'))).toEqual({
    name: `${kit.id}/client`,
    path: `${kit.schema}, "$user", public`,
    timeout: '1234ms',
    memory: '77MB',
  })
  expect(kit.poolConfig('client', { max: 3 })).toMatchObject({ max: 3 })
  expect(kit.id).toMatch(/^crash_[0-9a-f]{16}$/)
  expect(kit.pawlSchema).toBe(`${kit.id}_pawl`)
})

test("the kit's own connections are READ COMMITTED and have time-outs of their own", async () => {
  const options = '-c default_transaction_isolation=serializable -c timezone=Asia/Tokyo'
  const kit = await kitWith('', poolOf({ options, statement_timeout: 77_000, lock_timeout: 77_000 }))
  expect(await values(kit, 'SHOW transaction_isolation')).toEqual(['read committed'])
  expect(await values(kit, 'SHOW timezone')).toEqual(['UTC'])
  expect(await values(kit, 'SHOW statement_timeout')).toEqual(['0'])
  expect(await values(kit, 'SHOW lock_timeout')).toEqual(['15s'])
})

test("a connection string's names and options do not win over the kit's", async () => {
  const url = new URL(inject('databaseUrl'))
  url.searchParams.set('application_name', 'theirs')
  url.searchParams.set('options', '-c work_mem=77MB -c search_path=pg_catalog,public')
  url.searchParams.set('statement_timeout', '1234')
  const kit = await kitWith('', new pg.Pool({ connectionString: url.href }))
  expect(await sessionOf(kit.poolConfig('client'))).toEqual({
    name: `${kit.id}/client`,
    path: `${kit.schema}, pg_catalog,public`,
    timeout: '1234ms',
    memory: '77MB',
  })
})

test('a search path with spaces and backslashes in its names is kept', async () => {
  const kit = await kitWith('', poolOf({ options: String.raw`-c search_path="a\ b","c\\d",public` }))
  expect(await sessionOf(kit.poolConfig('client'))).toMatchObject({
    path: String.raw`${kit.schema}, "a b","c\d",public`,
  })
})

test("the application's hook runs on each connection, and cannot change the search path", async () => {
  const onConnect = (async (client: pg.ClientBase) => {
    await client.query(`SET search_path = pg_catalog; SET work_mem = '55MB'`)
  }) as (client: pg.ClientBase) => void
  const kit = await kitWith('CREATE TABLE notes (id integer)', poolOf({ onConnect }))
  const pool = new pg.Pool(kit.poolConfig('client'))
  pool.on('error', () => {})
  const { rows } = await pool.query(
    `SELECT current_setting('search_path') AS path, current_setting('work_mem') AS memory, to_regclass('notes')::text AS found`,
  )
  await pool.end()
  expect(rows).toEqual([{ path: `${kit.schema}, pg_catalog`, memory: '55MB', found: 'notes' }])
})

const password = (): Promise<string> => Promise.resolve('secret')

test('passwords, functions that return one, and TLS settings are taken over', () => {
  const ssl = { rejectUnauthorized: false }
  const given = connectionOf(
    new pg.Pool({ host: 'db.example', port: 6543, user: 'me', database: 'mine', password, ssl }),
  )
  expect(given).toMatchObject({ host: 'db.example', port: 6543, user: 'me', database: 'mine' })
  expect(given.password).toBe(password)
  expect(given.ssl).toBe(ssl)
  // The pool hides a password that was passed as an option.
  expect(connectionOf(new pg.Pool({ password: 'plain' })).password).toBe('plain')
  expect(
    connectionOf(new pg.Pool({ connectionString: 'postgresql://me:inside@db.example/mine' })),
  ).toMatchObject({
    user: 'me',
    password: 'inside',
  })
  // The actor's pool decides how many connections it has, and of which class they are.
  expect(connectionOf(new pg.Pool({ max: 1, maxUses: 1, Client: pg.Client }))).not.toHaveProperty('max')
})

test.each(['', 'ä', 'x'.repeat(41)])("'%s' cannot be an actor's name", async (name) => {
  const kit = await kitWith()
  expect(() => kit.poolConfig(name)).toThrow(expect.objectContaining({ code: 'PAWL_KIT_INVALID_ACTOR' }))
  expect(await sessionOf(kit.poolConfig('x'.repeat(40)))).toMatchObject({
    name: `${kit.id}/${'x'.repeat(40)}`,
  })
})

test('backends reports what each connection does, and whom it waits for', async () => {
  const kit = await kitWith('CREATE TABLE notes (id integer); INSERT INTO notes VALUES (1)')
  const [client, rival] = [await connect(kit, 'client'), await connect(kit, 'rival')]
  await client.query('BEGIN; UPDATE notes SET id = 2')
  const blocked = rival.query('UPDATE notes SET id = 3')
  while ((await kit.backends('rival'))[0]?.waitEventType !== 'Lock');
  const [first, second, ...others] = await kit.backends()
  expect(others).toEqual([])
  expect(first).toMatchObject({ actor: 'client', state: 'idle in transaction', blockedBy: [] })
  expect(second).toMatchObject({
    actor: 'rival',
    state: 'active',
    query: 'UPDATE notes SET id = 3',
    waitEventType: 'Lock',
    blockedBy: [first?.pid],
  })
  await client.query('COMMIT')
  await blocked
  expect(await kit.backends('rival')).toMatchObject([{ state: 'idle', blockedBy: [] }])
  expect(await kit.backends('nobody')).toEqual([])
})

test('tableWaitMs returns how long an actor has waited for the whole table of keys, and for nothing else', async () => {
  const kit = await kitWith('CREATE TABLE notes (id integer)')
  const keys = `${kit.pawlSchema}.idempotency_keys`
  const [client, rival, migration] = [
    await connect(kit, 'client'),
    await connect(kit, 'rival'),
    await connect(kit, 'migration'),
  ]
  await migration.query(`BEGIN; LOCK TABLE ${keys}; LOCK TABLE notes`)
  const [counted, noted] = [client.query(`SELECT FROM ${keys}`), rival.query('SELECT FROM notes')]
  while ((await kit.backends('rival'))[0]?.waitEventType !== 'Lock');
  let waitedMs = 0
  while (waitedMs === 0) waitedMs = await kit.tableWaitMs('client')
  expect(await kit.tableWaitMs('client')).toBeGreaterThan(waitedMs)
  expect(await kit.tableWaitMs('rival')).toBe(0)
  await migration.query('ROLLBACK')
  await Promise.all([counted, noted])
  expect(await kit.tableWaitMs('client')).toBe(0)
})

test('terminate ends the connections of one actor, all of them, and resolves when they are gone', async () => {
  const kit = await kitWith('CREATE TABLE notes (id integer); INSERT INTO notes VALUES (1)')
  const client = await connect(kit, 'client')
  const busy = await connect(kit, 'client')
  const other = await connect(kit, 'client 2')
  await client.query('BEGIN; UPDATE notes SET id = 2')
  const sleeping = busy.query('SELECT pg_sleep(600)').catch((error: unknown) => error)
  while ((await kit.backends('client')).filter(({ state }) => state === 'active').length !== 1);
  expect(await kit.terminate('client')).toBe(2)
  expect(await kit.backends('client')).toEqual([])
  expect(await sleeping).toMatchObject({ code: '57P01' })
  // Its transaction is over, and its locks are free.
  await other.query('UPDATE notes SET id = 3')
  expect(await values(kit, 'SELECT id FROM notes')).toEqual([3])
  expect(await kit.terminate('client')).toBe(0)
})

test('terminate waits for a connection that is slow to end', async () => {
  // A server of its own, whose processes are on this machine.
  const kit = await kitWith('', null)
  await connect(kit, 'client')
  const [backend] = await kit.backends('client')
  const pid = backend?.pid ?? 0
  process.kill(pid, 'SIGSTOP')
  const order: string[] = []
  const terminated = kit.terminate('client').then(() => order.push('terminated'))
  for (let looks = 0; looks < 10; looks++) await values(kit, 'SELECT pg_sleep(0.01)')
  order.push('goes on')
  process.kill(pid, 'SIGCONT')
  await terminated
  expect(order).toEqual(['goes on', 'terminated'])
})

test('backendsGone resolves when the last connection of the actor has ended, and not before', async () => {
  const kit = await kitWith()
  const [client, other] = [await connect(kit, 'client'), await connect(kit, 'other')]
  const order: string[] = []
  const gone = kit.backendsGone('client').then(() => order.push('gone'))
  // It still waits after the server has been asked several times.
  for (let looks = 0; looks < 10; looks++) await values(kit, 'SELECT pg_sleep(0.01)')
  order.push('ended')
  await client.end()
  await gone
  expect(order).toEqual(['ended', 'gone'])
  expect(await kit.backends('other')).toHaveLength(1)
  await other.end()
})
