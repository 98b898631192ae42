import { once as emitted } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { createOperator, migrate, migrationSql, respond } from '@pawl/core'
import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { randomLetters } from '../support/random-letters.js'
import { createEngine, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { migrateFromOlder, migrateToOlder } from './made-up-migrations.js'

let database: TestDatabase
/** A schema that does not exist yet. */
let schema: string
let role: string

beforeEach(async () => {
  database = await TestDatabase.createPlain()
  schema = `${database.businessSchema}_new`
  role = `r_${randomLetters()}`
  await database.admin.query(`CREATE ROLE ${role}`)
})
afterEach(async () => {
  await database.admin.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
  await database.admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
  await database.drop()
})

/** Everything that PostgreSQL knows about a schema, except for its name. */
async function catalogOf(name: string): Promise<unknown> {
  const queries = [
    `SELECT table_name, column_name, data_type, collation_name, is_nullable, column_default, is_identity
       FROM information_schema.columns WHERE table_schema = $1 ORDER BY table_name, column_name`,
    `SELECT conrelid::regclass::text AS "table", conname, pg_get_constraintdef(oid) AS definition
       FROM pg_constraint WHERE connamespace = to_regnamespace($1) ORDER BY conrelid::regclass::text, conname`,
    `SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = $1 ORDER BY indexname`,
    `SELECT relname, relkind, reloptions FROM pg_class WHERE relnamespace = to_regnamespace($1) ORDER BY relname`,
    `SELECT relname, attname, description FROM pg_description JOIN pg_class ON pg_class.oid = objoid
       LEFT JOIN pg_attribute ON attrelid = pg_class.oid AND attnum = objsubid AND attnum > 0
      WHERE relnamespace = to_regnamespace($1) ORDER BY relname, attname`,
  ]
  const answers = await Promise.all(queries.map((query) => database.rows(query, [name])))
  return JSON.parse(JSON.stringify(answers).replaceAll(name, 'the_schema'))
}

const asRole = (options = '') => database.pool({ max: 2, options: `-c role=${role} ${options}` })

/** Expects that no connection is checked out, and that none that came back is in a transaction. */
async function expectWhole(pool: pg.Pool): Promise<void> {
  expect(pool.idleCount).toBe(pool.totalCount)
  expect((await pool.query(`SELECT now() = statement_timestamp() AS fresh`)).rows).toEqual([{ fresh: true }])
}

/** How many migrations there are, all of which an empty schema gets. */
const ALL = 1

test('migrate can be repeated, and has nothing to do the second time', async () => {
  const pool = database.pool()
  expect(await migrate(pool, { schema })).toEqual({ applied: ALL })
  const before = await catalogOf(schema)
  expect(await migrate(pool, { schema })).toEqual({ applied: 0 })
  expect(await catalogOf(schema)).toEqual(before)
  await expectWhole(pool)
})

test('a schema of an older version is reported, and brought up to date with its rows', async () => {
  const pool = database.pool()
  expect(await migrateToOlder(pool, { schema })).toBe(1)
  const once = pipeline<null>({ name: 'once', version: 1 }).finish(() => respond(200))
  const engine = createEngine({ pool, schema, pipelines: [once] })
  const request = { scope: 's', key: 'k', input: null }
  await expect(engine.execute(once, request)).rejects.toMatchObject({ code: 'PAWL_NOT_MIGRATED' })
  const { definitionHash } = once
  await pool.query(
    `INSERT INTO ${schema}.idempotency_keys
       (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder)
     VALUES ('s', 'old', 'once', 1, $1, sha256('null'), 1, 'null', gen_random_uuid()) RETURNING id`,
    [definitionHash],
  )

  expect(await migrateFromOlder(pool, { schema })).toBe(1)
  expect(await catalogOf(schema)).toEqual(await catalogOf(database.schema))
  expect(await engine.execute(once, request)).toMatchObject({ type: 'completed' })
  const old = await engine.inspect('s', 'old')
  expect(await engine.resume(old?.keyId ?? '')).toMatchObject({ type: 'completed' })
  await engine.close()
})

test.each(['read committed', 'repeatable read', 'serializable'])(
  'eight migrations at once take turns, even if the default isolation is %s',
  async (isolation) => {
    const options = `-c default_transaction_isolation=${isolation.replace(' ', '\\ ')}`
    const pools = Array.from({ length: 8 }, () => database.pool({ max: 1, options }))
    // They connect beforehand, so that all of them meet at the lock.
    await Promise.all(pools.map((pool) => pool.query('SELECT 1')))
    const results = await Promise.all(pools.map((pool) => migrate(pool, { schema })))
    expect(results.filter(({ applied }) => applied === ALL)).toHaveLength(1)
    expect(results.filter(({ applied }) => applied === 0)).toHaveLength(7)
  },
)

test('migrationSql, applied by hand, creates the same, and migrate then has nothing to do', async () => {
  await database.admin.query(migrationSql({ schema }))
  expect(await catalogOf(schema)).toEqual(await catalogOf(database.schema))
  expect(await migrate(database.pool(), { schema })).toEqual({ applied: 0 })
})

test('every table and every column has a comment', async () => {
  const uncommented = await database.rows(
    `SELECT relname, attname FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0
      WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' AND NOT attisdropped
        AND (obj_description(pg_class.oid, 'pg_class') IS NULL OR col_description(pg_class.oid, attnum) IS NULL)`,
    [database.schema],
  )
  expect(uncommented).toEqual([])
  const tables = await database.rows<{ relname: string }>(
    `SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r' ORDER BY relname`,
    [database.schema],
  )
  expect(tables.map(({ relname }) => relname)).toEqual([
    'cache_epoch',
    'duplicates',
    'effects',
    'idempotency_keys',
    'interventions',
    'migrations',
    'pipelines',
    'readings',
    'scope_usage',
    'staged_jobs',
  ])
})

test('a wrong schema, option or pool is refused before anything is sent', async () => {
  const pool = database.pool()
  const wrong = { code: 'PAWL_INVALID_OPTION' }
  const dangerous = 'pawl"; DROP SCHEMA public; --'
  await expect(migrate(pool, { schema: dangerous })).rejects.toMatchObject(wrong)
  await expect(migrate(pool, { scheme: 'x' } as never)).rejects.toMatchObject(wrong)
  await expect(migrate({} as never)).rejects.toMatchObject(wrong)
  expect(pool.totalCount).toBe(0)
})

describe('a role that may not create schemas', () => {
  test('is told so, and leaves nothing behind', async () => {
    const pool = asRole()
    const error = await migrate(pool, { schema }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'PAWL_MISSING_RIGHT', cause: { code: '42501' } })
    expect((error as Error).message).toContain(`Role '${role}' may not create or change the tables`)
    expect((error as Error).message).toMatch(new RegExp(`GRANT CREATE ON DATABASE "\\w+" TO "${role}"`))
    expect(await database.rows('SELECT to_regnamespace($1) AS found', [schema])).toEqual([{ found: null }])
    await expectWhole(pool)
  })

  test('migrates a schema that was made for it', async () => {
    await database.admin.query(`CREATE SCHEMA ${schema} AUTHORIZATION ${role}`)
    expect(await migrate(asRole(), { schema })).toEqual({ applied: ALL })
    expect(await catalogOf(schema)).toEqual(await catalogOf(database.schema))
  })

  test('and owns no table may call migrate at every start, if another role migrates', async () => {
    await migrate(database.pool(), { schema })
    await database.admin.query(`GRANT USAGE ON SCHEMA ${schema} TO ${role};
                                GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${role}`)
    const pool = asRole()
    expect(await migrate(pool, { schema })).toEqual({ applied: 0 })
    const hello = pipeline<null>({ name: 'hello', version: 1 })
      .foreign('said', { call: () => 1 })
      .finish(async ({ stage }) => respond(200, { job: await stage('job', {}) }))
    const engine = createEngine({ pool, pipelines: [hello], schema })
    const request = { scope: 's', key: 'k', input: null }
    expect(await engine.execute(hello, request)).toMatchObject({ type: 'completed' })
    expect(await engine.execute(hello, request)).toMatchObject({ type: 'replayed' })
    await engine.close()
  })
})

test('an engine without its tables says what to do, and reserves nothing', async () => {
  const hello = pipeline<null>({ name: 'hello', version: 1 }).finish(() => respond(200))
  const engine = createEngine({ pool: database.pool(), pipelines: [hello], schema })
  const request = { scope: 's', key: 'k', input: null }
  await expect(engine.execute(hello, request)).rejects.toMatchObject({
    code: 'PAWL_NOT_MIGRATED',
    message: expect.stringContaining(`schema '${schema}'`),
  })
  await engine.close()
})

describe('migrate says of a server', () => {
  test('that does not answer, or lets nobody in, why it could not connect', async () => {
    const { port, pathname, username } = new URL(database.url)
    const nobody = await freePort()
    const away = database.pool({
      connectionString: `postgresql://${username}@127.0.0.1:${nobody}${pathname}`,
    })
    await expect(migrate(away, { schema })).rejects.toMatchObject({
      code: 'PAWL_NO_CONNECTION',
      message: `migrate could not connect to PostgreSQL: connect ECONNREFUSED 127.0.0.1:${nobody}`,
    })
    const { password } = new URL(database.url)
    const elsewhere = `postgresql://${username}:${password}@127.0.0.1:${port}/no_such_database`
    await expect(migrate(database.pool({ connectionString: elsewhere }), { schema })).rejects.toMatchObject({
      code: 'PAWL_NO_CONNECTION',
      message: expect.stringContaining('"no_such_database"'),
    })
  })

  test('older than those we test with that it is too old, and changes nothing', async () => {
    const { rows } = await database.admin.query<{ number: string; version: string }>(
      `SELECT current_setting('server_version_num') AS number, current_setting('server_version') AS version`,
    )
    const older = await PostgresProxy.start(database.url)
    onTestFinished(() => older.close())
    older.answerInstead(rows[0]?.number ?? '', '140019')
    const pool = database.pool({ connectionString: older.url })
    await expect(migrate(pool, { schema })).rejects.toMatchObject({
      code: 'PAWL_UNSUPPORTED_SERVER',
      message: expect.stringContaining('Pawl needs 15 or later'),
    })
    expect(await database.rows('SELECT to_regnamespace($1) AS found', [schema])).toEqual([{ found: null }])
    const findings = await createOperator({ pool, schema: database.schema }).doctor()
    expect(findings).toContainEqual({
      check: 'server',
      level: 'error',
      detail: `The server is PostgreSQL ${rows[0]?.version}; Pawl is not tested with anything before 15.`,
      remedy: 'Upgrade it to 15 or later.',
    })
  })
})

/** The process warnings that are emitted meanwhile. */
async function warnedOf(work: () => Promise<unknown>): Promise<string[]> {
  const warnings: string[] = []
  const listen = (warning: Error) => void warnings.push(warning.message)
  process.on('warning', listen)
  await work()
  // Warnings are emitted on a later turn.
  await new Promise((resolve) => setImmediate(resolve))
  process.off('warning', listen)
  return warnings
}

const pathFinding = async (pool: pg.Pool) =>
  (await createOperator({ pool, schema }).doctor()).find(({ check }) => check === 'path')

describe('our schema on the search path', () => {
  test.each([
    ['in front', () => `${schema},${database.businessSchema}`],
    ['behind schemas that are not there', () => `no_such_schema,"No\\ such",${schema},public`],
  ])('%s makes migrate and doctor warn', async (_, path) => {
    const pool = database.pool({ max: 1, options: `-c search_path=${path()}` })
    const [warning, ...others] = await warnedOf(() => migrate(pool, { schema }))
    expect(others).toEqual([])
    expect(warning).toContain(`Schema '${schema}', which is Pawl's, comes first on the search path of role`)
    expect(await pathFinding(pool)).toMatchObject({
      level: 'warning',
      remedy: expect.stringContaining('SET search_path = public') as unknown,
    })
    // What they warn of does happen.
    await pool.query('CREATE TABLE astray ()')
    expect(await database.rows('SELECT to_regclass($1) AS found', [`${schema}.astray`])).toEqual([
      { found: `${schema}.astray` },
    ])
  })

  test('makes migrate warn if it has the name of the role, which "$user" puts first', async () => {
    await database.admin.query(`ALTER ROLE ${role} LOGIN SUPERUSER`)
    const pool = database.pool({ max: 1, options: '-c search_path="$user",public -c role=' + role })
    const warnings = await warnedOf(() => migrate(pool, { schema: role }))
    expect(warnings).toEqual([expect.stringContaining('(as the schema with the same name)')])
  })

  test('makes migrate warn behind pg_catalog, where nobody may create anything', async () => {
    const pool = database.pool({ max: 1, options: `-c search_path=pg_catalog,${schema},public` })
    expect(await warnedOf(() => migrate(pool, { schema }))).toHaveLength(1)
  })

  test('makes migrate warn if sessions of the role begin with it, even though this one has set another', async () => {
    const pool = database.pool({ max: 1, options: `-c search_path=${schema}` })
    await pool.query('SET search_path = public')
    expect(await warnedOf(() => migrate(pool, { schema }))).toHaveLength(1)
  })

  test('causes no warning behind the schema of the application, or if it is not there', async () => {
    const pool = database.pool({ max: 1, options: `-c search_path=${database.businessSchema},${schema}` })
    expect(await warnedOf(() => migrate(pool, { schema }))).toEqual([])
    expect(await warnedOf(() => migrate(database.pool({ max: 1 }), { schema }))).toEqual([])
    expect(await pathFinding(pool)).toMatchObject({ level: 'ok' })
  })
})

/** A port that nobody listens on. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await emitted(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await emitted(server, 'close')
  return port
}
