import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { beforeEach, expect, inject, test } from 'vitest'
import { KitDatabase } from '../../packages/crash-kit/src/database/kit-database.js'
import { randomLetters } from '../support/random-letters.js'
import { TestDatabase } from '../support/test-database.js'
import { connect, copyingKit, insertKey, kitWith, poolOf, values } from './kit-with.js'
import { onlyDeep } from '../support/amounts.js'

const OPENER = fileURLToPath(new URL('../fixtures/crash-kit-opener.mjs', import.meta.url))

/** A role for this test, which owns only what its kits create. */
let role: string
let database: TestDatabase

beforeEach(async () => {
  database = await TestDatabase.create()
  role = `role_${randomLetters()}`
  await database.rows(`CREATE ROLE ${role} LOGIN PASSWORD 'secret' NOSUPERUSER`)
  await grantCreate()
  return async () => {
    await database.rows(`DROP OWNED BY ${role} CASCADE`)
    await database.drop()
    const again = await TestDatabase.create()
    await again.rows(`DROP ROLE ${role}`)
    await again.drop()
  }
})

const grantCreate = (): Promise<unknown> =>
  database.rows(
    `DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO ${role}', current_database()); END $$`,
  )

const revokeCreate = (): Promise<unknown> =>
  database.rows(
    `DO $$ BEGIN EXECUTE format('REVOKE CREATE ON DATABASE %I FROM ${role}', current_database()); END $$`,
  )

function roleUrl(): string {
  const url = new URL(inject('databaseUrl'))
  url.username = role
  url.password = 'secret'
  return url.href
}

const rolePool = (config: pg.PoolConfig = {}): pg.Pool => poolOf({ connectionString: roleUrl(), ...config })

/** What the role's kits have left. */
const schemasLeft = async (): Promise<string[]> => {
  const sql = `SELECT nspname AS name FROM pg_namespace WHERE nspowner = '${role}'::regrole ORDER BY 1`
  return (await database.rows<{ name: string }>(sql)).map(({ name }) => name)
}

/** Resolves when no connection of the role is left on the server. */
async function sessionsGone(): Promise<void> {
  const sql = `SELECT count(*)::int AS left FROM pg_stat_activity, pg_sleep(0.005) WHERE usename = '${role}'`
  while ((await database.rows<{ left: number }>(sql))[0]?.left !== 0);
}

const failure = (open: Promise<KitDatabase>): Promise<unknown> =>
  open.then(
    (kit) => kit.close().then(() => 'it opened'),
    (error: unknown) => error,
  )

const nothing = async (): Promise<void> => {}

test('everything works for a role that is not a superuser but may create schemas', async () => {
  await database.rows(`CREATE TABLE notes (id serial PRIMARY KEY, body text); INSERT INTO notes (body) VALUES ('theirs');
    CREATE TABLE secret (id integer);
    GRANT USAGE ON SCHEMA ${database.businessSchema} TO ${role}; GRANT SELECT, INSERT ON notes TO ${role}`)
  const kit = await copyingKit(rolePool({ options: `-c search_path=${database.businessSchema}` }))
  // A table that it may do nothing with cannot be one that its pipeline uses.
  expect(
    await values(kit, `SELECT tablename::text FROM pg_tables WHERE schemaname = '${kit.schema}'`),
  ).toEqual(['notes'])
  const client = await connect(kit, 'client')
  const mark = await kit.mark()
  await insertKey(client, kit, 'k')
  await client.query(`INSERT INTO notes (body) VALUES ('ours')`)
  expect(await kit.passTime('s', 'k', 1_000)).toBe('passed')
  expect(await kit.expireLease('s', 'k')).toBe('passed')
  expect(await kit.commitsSince(mark)).toHaveLength(4)
  expect(await kit.backends('client')).toHaveLength(1)
  expect(await kit.terminate('client')).toBe(1)
  await kit.loseCommitsSince(mark)
  expect(await values(kit, `SELECT body FROM ${kit.schema}.notes`)).toEqual(['theirs'])
  await kit.close()
  await sessionsGone()
  expect(await schemasLeft()).toEqual([])
})

test('close leaves nothing behind, whoever is in the middle of something, and may be called again', async () => {
  const pool = rolePool()
  const kit = await kitWith('CREATE TABLE notes (id integer)', pool)
  expect(await schemasLeft()).toEqual([kit.schema, `${kit.schema}_audit`, kit.pawlSchema])
  const client = await connect(kit, 'client')
  await client.query('BEGIN; INSERT INTO notes VALUES (1)')
  // A connection of the kit's own that nobody gives back.
  const held = await kit.admin.connect()
  held.on('error', () => {})
  await held.query(`BEGIN; LOCK TABLE ${kit.pawlSchema}.effects`)

  await Promise.all([kit.close(), kit.close()])
  await kit.close()
  expect(await schemasLeft()).toEqual([])
  await sessionsGone()
  // The application's pool was only read.
  expect([pool.totalCount, pool.ending]).toEqual([0, false])
  expect((await pool.query('SELECT 1 AS works')).rows).toEqual([{ works: 1 }])
  await pool.end()
})

onlyDeep(() => {
  test('the next kit drops what a kit whose process was killed has left', async () => {
    const opener = fork(OPENER, [roleUrl(), 'hold'], { execArgv: [] })
    const [{ id }] = (await once(opener, 'message')) as [{ id: string }]
    await once(opener, 'message')
    const alive = await kitWith('', rolePool())
    expect(await schemasLeft()).toEqual([id, `${id}_audit`, `${id}_pawl`, ...kitSchemas(alive)].toSorted())

    opener.kill('SIGKILL')
    await once(opener, 'exit')
    await ownerGone(id)
    const next = await kitWith('', rolePool())
    expect(await schemasLeft()).toEqual([...kitSchemas(alive), ...kitSchemas(next)].toSorted())
  })
})

const kitSchemas = ({ schema, pawlSchema, id }: KitDatabase): string[] => [schema, pawlSchema, `${id}_audit`]

/** Resolves when the server has noticed that the session which held a kit's lock is gone. */
async function ownerGone(id: string): Promise<void> {
  const sql = `SELECT count(*)::int AS left FROM pg_stat_activity, pg_sleep(0.005) WHERE application_name = '${id}'`
  while ((await database.rows<{ left: number }>(sql))[0]?.left !== 0);
}

onlyDeep(() => {
  test.each(['close', 'nothing'])(
    'a process ends by itself, whether its kit is closed or not (%s)',
    async (then) => {
      const opener = fork(OPENER, [roleUrl(), then], { execArgv: [] })
      // 13 would mean that something was awaited although nothing was left to wait for.
      const [code] = (await once(opener, 'exit')) as [number | null]
      expect(code).toBe(0)
      await sessionsGone()
      // The next kit drops what the other one leaves, and another test may have had that kit.
      if (then === 'close') expect(await schemasLeft()).toEqual([])
    },
  )
})

test('a schema that merely has such a name is left alone', async () => {
  const name = `crash_${randomLetters()}`
  await database.rows(`CREATE SCHEMA ${name} AUTHORIZATION ${role}`)
  const kit = await kitWith('', rolePool())
  expect(await schemasLeft()).toContain(name)
  await kit.close()
})

test('two kits side by side do not see each other', async () => {
  const [one, other] = await Promise.all([
    kitWith('CREATE TABLE notes (id integer)', rolePool()),
    kitWith('CREATE TABLE notes (id integer)', rolePool()),
  ])
  const [mark, otherMark] = [await one.mark(), await other.mark()]
  const [client, otherClient] = [await connect(one, 'client'), await connect(other, 'client')]
  await client.query('INSERT INTO notes VALUES (1)')
  await otherClient.query('INSERT INTO notes VALUES (2)')
  expect((await one.commitsSince(mark)).flatMap(({ changes }) => changes)).toMatchObject([
    { after: { id: 1 } },
  ])
  expect((await other.commitsSince(otherMark)).flatMap(({ changes }) => changes)).toMatchObject([
    { after: { id: 2 } },
  ])
  expect(await one.terminate('client')).toBe(1)
  await one.close()
  expect((await otherClient.query('SELECT id FROM notes')).rows).toEqual([{ id: 2 }])
  expect(await other.backends()).toHaveLength(1)
})

onlyDeep(() => {
  test('without a pool, the kit has a PostgreSQL of its own, which ends with it', async () => {
    const kit = await KitDatabase.open({ pool: null, prepare: null })
    const client = await connect(kit, 'client')
    const mark = await kit.mark()
    await insertKey(client, kit, 'k')
    expect(await kit.commitsSince(mark)).toHaveLength(1)
    await client.end()
    await kit.close()
    await kit.close()
    await expect(connect(kit, 'client')).rejects.toThrow('ECONNREFUSED')
  })
})

test('for a role that may not create schemas, the error names the right that it needs', async () => {
  await revokeCreate()
  expect(await failure(KitDatabase.open({ pool: rolePool(), prepare: nothing }))).toMatchObject({
    code: 'PAWL_KIT_NO_RIGHTS',
    message: expect.stringMatching(`"${role}".*GRANT CREATE ON DATABASE`),
  })
  await sessionsGone()
})

test('a table that the role may write but not read cannot be copied, and the error names it', async () => {
  await database.rows(`CREATE TABLE inbox (id integer);
    GRANT USAGE ON SCHEMA ${database.businessSchema} TO ${role}; GRANT INSERT ON inbox TO ${role}`)
  const pool = rolePool({ options: `-c search_path=${database.businessSchema}` })
  expect(await failure(KitDatabase.open({ pool, prepare: null }))).toMatchObject({
    code: 'PAWL_KIT_CANNOT_COPY',
    message: expect.stringMatching(`${database.businessSchema}.inbox.*GRANT SELECT`),
  })
  await sessionsGone()
  expect(await schemasLeft()).toEqual([])
})

test.each([
  ['a read-only database', { options: '-c default_transaction_read_only=on' }, 'PAWL_KIT_READ_ONLY'],
  ['no server', { connectionString: 'postgresql://nobody@127.0.0.1:1/nowhere' }, 'PAWL_KIT_NO_DATABASE'],
])('%s has an error of its own', async (_name, config, code) => {
  expect(await failure(KitDatabase.open({ pool: rolePool(config), prepare: nothing }))).toMatchObject({
    code,
  })
  await sessionsGone()
})

test('something other than a pool is refused', async () => {
  expect(
    await failure(KitDatabase.open({ pool: 'postgresql://x' as never, prepare: nothing })),
  ).toMatchObject({
    code: 'PAWL_KIT_INVALID_OPTION',
  })
})

test('when prepare fails, its error is the cause, and nothing is left behind', async () => {
  const cause = new Error('no such migration')
  const prepare = async ({ pool }: { pool: pg.Pool }): Promise<void> => {
    await pool.query('CREATE TABLE notes (id integer)')
    throw cause
  }
  expect(await failure(KitDatabase.open({ pool: rolePool(), prepare }))).toMatchObject({
    code: 'PAWL_KIT_PREPARE_FAILED',
    message: expect.stringContaining('no such migration'),
    cause,
  })
  await sessionsGone()
  expect(await schemasLeft()).toEqual([])
})

const keepClient = async ({ pool }: { pool: pg.Pool }): Promise<void> => {
  const client = await pool.connect()
  client.on('error', () => {})
  await client.query('BEGIN; CREATE TABLE notes (id integer)')
}

test('when prepare keeps a client, the error says so, and nothing is left behind', async () => {
  expect(await failure(KitDatabase.open({ pool: rolePool(), prepare: keepClient }))).toMatchObject({
    code: 'PAWL_KIT_PREPARE_FAILED',
  })
  expect(await schemasLeft()).toEqual([])
  await sessionsGone()
})

test("prepare gets the names of both schemas, and its pool creates tables in the kit's", async () => {
  let told: unknown
  const kit = await KitDatabase.open({
    pool: rolePool(),
    prepare: async ({ pool, schema, pawlSchema }) => {
      told = { schema, pawlSchema }
      await pool.query(`CREATE TABLE notes (key_id uuid REFERENCES ${pawlSchema}.idempotency_keys)`)
    },
  })
  expect(told).toEqual({ schema: kit.schema, pawlSchema: kit.pawlSchema })
  expect(await values(kit, `SELECT to_regclass('${kit.schema}.notes') IS NOT NULL`)).toEqual([true])
  await kit.close()
})
