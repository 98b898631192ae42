import { randomUUID } from 'node:crypto'
import { respond } from '@pawl/core'
import { type RawBuilder, sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { createEngine, createRideTables, pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
await database.rows('CREATE TABLE notes (text text)')
afterAll(() => database.drop())
beforeEach(async () => {
  await database.rows('TRUNCATE notes')
})

const request = () => ({ scope: 's', key: randomUUID(), input: null })
const notes = async () =>
  (await database.rows<{ text: string }>('SELECT text FROM notes')).map(({ text }) => text)

type Phase = Parameters<ReturnType<typeof pipeline<null>>['local']>[1]
type Tx = Parameters<Phase>[0]['tx']
type PoolOptions = Parameters<typeof database.pool>[0]

/** Runs one phase as often as `run` is called. */
function runnerOf(
  phase: (tx: Tx) => Promise<void>,
  { pool: options = {}, preparedQueries }: { pool?: PoolOptions; preparedQueries: boolean },
) {
  const pool = database.pool({ max: 1, ...options })
  const noted = pipeline<null>({ name: 'note', version: 1 })
    .local('noted', ({ tx }) => phase(tx))
    .finish(() => respond(200))
  const engine = createEngine({ pool, pipelines: [noted], schema: database.schema, preparedQueries })
  return { pool, engine, run: () => engine.execute(noted, request()) }
}

/** Like a client of `pg-native`, it cannot send statements together. */
class ClientWithoutPipelining extends pg.Client {
  static readonly Query = { prototype: {} }
}

const QUERIES: [string, () => RawBuilder<unknown>][] = [
  [
    'values of all kinds',
    () => sql`SELECT ${'9007199254740993'}::bigint AS big, 1.50::numeric AS exact, true AS yes, NULL::text AS nothing,
                     '2020-01-02 03:04:05.678+00'::timestamptz AS at, '{"a":[1]}'::json AS json, '{1,2}'::integer[] AS list,
                     '\\x00ff'::bytea AS bytes, '' AS empty, 'ü€😀' AS text`,
  ],
  [
    'columns that objects have',
    () => sql`SELECT ${1}::integer AS "__proto__", 2 AS constructor, 3 AS "toString"`,
  ],
  ['columns of one name', () => sql`SELECT ${1}::integer AS a, 2 AS a`],
  ['many rows', () => sql`SELECT n, n % 2 = 0 AS even FROM generate_series(1, ${50}::integer) AS n`],
  ['no rows', () => sql`SELECT 1 AS one WHERE ${false}`],
  ['no columns', () => sql`SELECT WHERE ${true}`],
  ['rows that were changed', () => sql`INSERT INTO notes VALUES (${'a'}), (${'b'})`],
  ['rows that were not', () => sql`UPDATE notes SET text = ${'c'} WHERE false`],
  ['rows that come back', () => sql`INSERT INTO notes VALUES (${'a'}) RETURNING text, length(text)`],
  [
    'null, bytes and numbers',
    () => sql`SELECT ${null}::text AS a, ${Buffer.from([0, 255])}::bytea AS b, ${1.5}::float8 AS c`,
  ],
  [
    'values that take more than a text',
    () =>
      sql`SELECT ${new Date(0)}::timestamptz AS a, ${[1, 2]}::integer[] AS b, ${{ c: 1 }}::json AS c, ${2n}::bigint AS d`,
  ],
]

const typedRow = () => sql`SELECT ${'{"a":1}'}::json AS json, '2020-01-02'::date AS day, 1.5::float4 AS short`

describe.each([false, true])('with preparedQueries: %s', (preparedQueries) => {
  test.each(QUERIES)(
    'the query that travels with BEGIN returns the same as one sent on its own: %s',
    async (_, query) => {
      const given: unknown[][] = []
      const { engine, run } = runnerOf(
        async (tx) => {
          await database.rows('TRUNCATE notes')
          const first = await query().execute(tx)
          given.push([first, await query().execute(tx)])
        },
        { preparedQueries },
      )
      // Often enough to be prepared, and then to be used prepared.
      for (let time = 0; time < 8; time++) expect((await run()).type).toBe('completed')
      for (const [first, second] of given) expect(first).toStrictEqual(second)
      expect(
        new Set(
          given.map((both) =>
            JSON.stringify(both, (__, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value)),
          ),
        ),
      ).toHaveProperty('size', 1)
      await engine.close()
    },
  )

  test('a pool that asks for binary values gets them', async () => {
    const given: unknown[][] = []
    const { engine, run } = runnerOf(
      async (tx) => {
        const first = await typedRow().execute(tx)
        given.push([first.rows, (await typedRow().execute(tx)).rows])
      },
      { pool: { binary: true } as PoolOptions, preparedQueries },
    )
    for (let time = 0; time < 8; time++) expect((await run()).type).toBe('completed')
    for (const [first, second] of given) expect(first).toStrictEqual(second)
    await engine.close()
  })

  test('type parsers of the pool are used', async () => {
    const types = { getTypeParser: () => (value: unknown) => `parsed ${String(value)}` }
    const seen: unknown[] = []
    const { engine, run } = runnerOf(
      async (tx) => void seen.push((await sql`SELECT ${1}::integer AS one, NULL AS none`.execute(tx)).rows),
      { pool: { types }, preparedQueries },
    )
    for (let time = 0; time < 8; time++) await run()
    expect(seen).toEqual(Array.from({ length: 8 }, () => [{ one: 'parsed 1', none: null }]))
    await engine.close()
  })

  test('a row that cannot be read fails the phase, and leaves nothing of it', async () => {
    const types = {
      getTypeParser: () => () => {
        throw new Error('unreadable')
      },
    }
    const { engine, run } = runnerOf(
      async (tx) => void (await sql`INSERT INTO notes VALUES (${'lost'}) RETURNING text`.execute(tx)),
      { pool: { types }, preparedQueries },
    )
    expect(await run()).toMatchObject({ type: 'retry_later', error: { message: 'unreadable' } })
    expect(await notes()).toEqual([])
    await engine.close()
  })
})

test('two queries that are not prepared each have their own columns, on one connection', async () => {
  const rows: unknown[] = []
  const queries = [sql`SELECT ${1}::integer AS a`, sql`SELECT ${'x'}::text AS b, 2 AS c`]
  const { engine, run } = runnerOf(
    async (tx) => {
      rows.push((await queries[rows.length]?.execute(tx))?.rows)
    },
    { preparedQueries: false },
  )
  await run()
  await run()
  expect(rows).toEqual([[{ a: 1 }], [{ b: 'x', c: 2 }]])
  await engine.close()
})

/** What a query returns on a connection with this search path, which has prepared it. */
const rowsOn = async (schema: string) => {
  let rows: unknown
  const { engine, run } = runnerOf(
    async (tx) => {
      rows = (await sql`SELECT * FROM things WHERE ${true}`.execute(tx)).rows
    },
    { pool: { options: `-c search_path=${schema}` }, preparedQueries: true },
  )
  for (let time = 0; time < 8; time++) expect((await run()).type).toBe('completed')
  await engine.close()
  return rows
}

describe("an application's queries are prepared, if it asks for that,", () => {
  const prepared = `SELECT regexp_replace(name, '_[0-9a-f]{16}$', '') AS name, statement FROM pg_prepared_statements
                     WHERE name LIKE 'pawl\\_query\\_%'`

  test('once they have been used often, and only those that have values', async () => {
    const { pool, engine, run } = runnerOf(
      async (tx) => {
        await sql`INSERT INTO notes VALUES (${'first'})`.execute(tx)
        await sql`UPDATE notes SET text = ${'second'}`.execute(tx)
        await sql`DELETE FROM notes`.execute(tx)
      },
      { preparedQueries: true },
    )
    for (let time = 0; time < 4; time++) await run()
    expect((await pool.query(prepared)).rows).toEqual([])
    for (let time = 0; time < 4; time++) await run()
    expect(
      (await pool.query<{ statement: string }>(prepared)).rows.map(({ statement }) => statement).toSorted(),
    ).toEqual(['INSERT INTO notes VALUES ($1)', 'UPDATE notes SET text = $1'])
    await engine.close()
  })

  test.each(['DISCARD ALL', 'DEALLOCATE ALL', 'ALTER TABLE notes ADD COLUMN IF NOT EXISTS more text'])(
    'and prepared again where that is needed: %s',
    async (statement) => {
      const { pool, engine, run } = runnerOf(
        async (tx) => void (await sql`INSERT INTO notes VALUES (${'noted'}) RETURNING *`.execute(tx)),
        { preparedQueries: true },
      )
      for (let time = 0; time < 6; time++) await run()
      await pool.query(statement)
      for (let time = 0; time < 6; time++) expect((await run()).type).toBe('completed')
      expect(await notes()).toHaveLength(12)
      await engine.close()
    },
  )

  test('but no longer once the type of their rows has changed, since more connections may have them than there are tries', async () => {
    const { pool, engine, run } = runnerOf(
      async (tx) => void (await sql`INSERT INTO notes VALUES (${'noted'}) RETURNING *`.execute(tx)),
      { pool: { max: 10 }, preparedQueries: true },
    )
    const clients = await Promise.all(Array.from({ length: 10 }, () => pool.connect()))
    for (const client of clients) client.release()
    for (let time = 0; time < 20; time++) await Promise.all(Array.from({ length: 10 }, run))
    await pool.query('ALTER TABLE notes ADD COLUMN yet_more text')
    for (let time = 0; time < 12; time++) expect((await run()).type).toBe('completed')
    await engine.close()
  })

  test.each([
    ['', {}],
    [', also where statements cannot be sent together', { Client: ClientWithoutPipelining }],
  ])(
    'and a value that cannot be sent leaves no connection that only seems to have them prepared%s',
    async (_, options) => {
      let value: unknown = { a: 1 }
      const { pool, engine, run } = runnerOf(
        async (tx) => {
          await sql`SELECT ${1}::integer`.execute(tx)
          await sql`SELECT ${value}::json`.execute(tx)
        },
        { pool: options, preparedQueries: true },
      )
      for (let time = 0; time < 6; time++) await run()
      value = { a: 1n }
      expect(await run()).toMatchObject({
        type: 'retry_later',
        error: { message: expect.stringContaining('BigInt') as unknown },
      })
      value = { a: 1 }
      const retried = hear('pawl:phase_retried')
      expect((await run()).type).toBe('completed')
      expect(retried).toEqual([])
      expect(pool.totalCount).toBe(1)
      await engine.close()
    },
  )

  test('each with the columns that its own connection knows, since the same text can mean two tables', async () => {
    const [one, other] = [database.businessSchema, `${database.businessSchema}_other`]
    await database.rows(`CREATE TABLE things (a integer); INSERT INTO things VALUES (1);
      CREATE SCHEMA ${other}; CREATE TABLE ${other}.things (b text, c integer);
      INSERT INTO ${other}.things VALUES ('x', 2)`)
    expect(await rowsOn(one)).toEqual([{ a: 1 }])
    expect(await rowsOn(other)).toEqual([{ b: 'x', c: 2 }])
    await database.rows(`DROP TABLE things; DROP SCHEMA ${other} CASCADE`)
  })

  test('but not those of engine.db, which nobody would retry', async () => {
    const { pool, engine } = runnerOf(async () => {}, { preparedQueries: true })
    for (let time = 0; time < 8; time++) await sql`SELECT ${1}::integer`.execute(engine.db)
    expect((await pool.query(prepared)).rows).toEqual([])
    await engine.close()
  })

  test('and not otherwise', async () => {
    const { pool, engine, run } = runnerOf(
      async (tx) => void (await sql`INSERT INTO notes VALUES (${'noted'})`.execute(tx)),
      { preparedQueries: false },
    )
    for (let time = 0; time < 8; time++) await run()
    expect((await pool.query(prepared)).rows).toEqual([])
    await engine.close()
  })
})
