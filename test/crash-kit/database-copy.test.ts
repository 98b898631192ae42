import { randomUUID } from 'node:crypto'
import { migrate } from '@pawl/core'
import type pg from 'pg'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { KitDatabase } from '../../packages/crash-kit/src/database/kit-database.js'
import { TestDatabase } from '../support/test-database.js'
import { connect, copyingKit, insertKey, values } from './kit-with.js'
import { keyReference } from '../support/layout.js'

/** The application's database: `pool` shows its tables, `database.admin` works on them. */
let database: TestDatabase
let pool: pg.Pool

beforeEach(async () => {
  database = await TestDatabase.create()
  pool = database.pool()
  return () => database.drop()
})

/** Everything that a copy could spoil: the rows of each table, and the position of each sequence. */
async function applicationIs(): Promise<unknown> {
  const tables = await database.rows<{ name: string }>(
    `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname = $1 ORDER BY 1`,
    [database.businessSchema],
  )
  const rows = await Promise.all(
    tables.map(({ name }) => database.rows(`SELECT t.*, t.xmin FROM ${name} AS t`)),
  )
  const sequences = await database.rows(
    `SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = $1 ORDER BY 1`,
    [database.businessSchema],
  )
  return { tables, rows, sequences }
}

const tablesOf = (kit: KitDatabase): Promise<unknown[]> =>
  values(kit, `SELECT tablename::text FROM pg_tables WHERE schemaname = '${kit.schema}' ORDER BY 1`)

test('copies tables with their rows, and leaves the originals alone', async () => {
  await database.rows(`
    CREATE TYPE size AS ENUM ('s', 'l');
    CREATE TABLE "Odd ""Name""" (id uuid PRIMARY KEY, "Some Column" size, tags text[], data json);
    CREATE TABLE prices (net numeric NOT NULL, gross numeric GENERATED ALWAYS AS (net * 2) STORED, note text DEFAULT 'none');
    INSERT INTO "Odd ""Name""" VALUES (gen_random_uuid(), 'l', '{a,b}', '{"b": 1, "a": "\\u0000"}');
    INSERT INTO prices (net) VALUES (1.10), (2.20)`)
  const before = await applicationIs()
  const kit = await copyingKit(pool)
  const client = await connect(kit, 'client')

  expect(await values(kit, `SELECT row_to_json(t)::text FROM ${kit.schema}."Odd ""Name""" AS t`)).toEqual(
    await values(kit, `SELECT row_to_json(t)::text FROM ${database.businessSchema}."Odd ""Name""" AS t`),
  )
  await client.query('INSERT INTO prices (net) VALUES (3)')
  await client.query('DELETE FROM "Odd ""Name"""')
  expect(await values(kit, `SELECT gross || ' ' || note FROM ${kit.schema}.prices ORDER BY gross`)).toEqual([
    '2.20 none',
    '4.40 none',
    '6 none',
  ])
  expect(await applicationIs()).toEqual(before)
})

test('copies are audited, and copying them is not part of the history', async () => {
  await database.rows('CREATE TABLE notes (id integer); INSERT INTO notes VALUES (1)')
  const kit = await copyingKit(pool)
  const client = await connect(kit, 'client')
  const mark = await kit.mark()
  await client.query('UPDATE notes SET id = 2')
  const commits = await kit.commitsSince(mark)
  expect(commits.flatMap(({ changes }) => changes)).toMatchObject([
    { table: 'notes', before: { id: 1 }, after: { id: 2 } },
  ])
  expect(await values(kit, `SELECT count(*)::int FROM ${kit.id}_audit.history`)).toEqual([1])
})

test('the copy has its own serials and sequences, which go on after the rows', async () => {
  await database.rows(`
    CREATE SEQUENCE numbers START 100 INCREMENT 10;
    CREATE SEQUENCE backwards INCREMENT -1;
    CREATE SEQUENCE tickets START 7;
    SELECT nextval('numbers');
    CREATE TABLE rides (id serial PRIMARY KEY, number text DEFAULT 'R-' || nextval('numbers'));
    CREATE TABLE returns (id bigint DEFAULT nextval('rides_id_seq'), number bigint DEFAULT nextval('backwards'));
    CREATE TABLE imported (id serial PRIMARY KEY);
    INSERT INTO rides DEFAULT VALUES;
    INSERT INTO returns DEFAULT VALUES;
    INSERT INTO imported VALUES (1), (41)`)
  const before = await applicationIs()
  const kit = await copyingKit(pool)
  const client = await connect(kit, 'client')

  const { rows: rides } = await client.query('INSERT INTO rides DEFAULT VALUES RETURNING id, number')
  const { rows: returns } = await client.query('INSERT INTO returns DEFAULT VALUES RETURNING id, number')
  const { rows: imported } = await client.query('INSERT INTO imported DEFAULT VALUES RETURNING id')
  const { rows: drawn } = await client.query(
    `SELECT nextval('numbers') AS number, nextval('tickets') AS ticket`,
  )
  expect({ rides, returns, imported, drawn }).toEqual({
    rides: [{ id: 3, number: 'R-120' }],
    returns: [{ id: '4', number: '-2' }],
    imported: [{ id: 42 }],
    drawn: [{ number: '130', ticket: '7' }],
  })
  expect(await values(kit, `SELECT pg_get_serial_sequence('${kit.schema}.rides', 'id')`)).toEqual([
    `${kit.schema}.rides_id_seq`,
  ])
  expect(await applicationIs()).toEqual(before)
})

test('identity columns of the copy have their own numbers, which go on after the rows', async () => {
  await database.rows(`
    CREATE TABLE strict (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, x integer);
    CREATE TABLE lax (id integer GENERATED BY DEFAULT AS IDENTITY (START WITH 5) PRIMARY KEY, x integer);
    INSERT INTO strict (x) VALUES (1), (2);
    DELETE FROM strict WHERE id = 2;
    INSERT INTO lax VALUES (5, 1), (6, 1)`)
  const before = await applicationIs()
  const kit = await copyingKit(pool)
  const client = await connect(kit, 'client')
  const strict = await client.query('INSERT INTO strict (x) VALUES (3) RETURNING id')
  const lax = await client.query('INSERT INTO lax (x) VALUES (3) RETURNING id')
  expect([strict.rows, lax.rows]).toEqual([[{ id: '3' }], [{ id: 7 }]])
  await expect(client.query('INSERT INTO strict (id) VALUES (9)')).rejects.toThrow(
    'cannot insert a non-DEFAULT value',
  )
  expect(await applicationIs()).toEqual(before)
})

test('checks, unique constraints and indexes hold in the copy, under the names that the application knows', async () => {
  await database.rows(`
    CREATE TABLE rides (
      id integer CONSTRAINT ride_number PRIMARY KEY, rider text NOT NULL, day date, amount integer,
      CONSTRAINT positive CHECK (amount > 0),
      CONSTRAINT one_a_day UNIQUE NULLS NOT DISTINCT (rider, day) DEFERRABLE,
      CONSTRAINT no_twins EXCLUDE USING btree (amount WITH =)
    );
    CREATE UNIQUE INDEX loudest ON rides (upper(rider)) WHERE amount > 100;
    CREATE INDEX by_day ON rides (day DESC) INCLUDE (amount);
    INSERT INTO rides VALUES (1, 'ada', NULL, 200)`)
  const kit = await copyingKit(pool)
  const client = await connect(kit, 'client')
  const constraintOf = (sql: string): Promise<unknown> =>
    client.query(sql).then(
      () => null,
      (error: pg.DatabaseError) => error.constraint ?? error.column,
    )
  expect(await constraintOf(`INSERT INTO rides VALUES (1, 'bob', '2020-01-01', 2)`)).toBe('ride_number')
  expect(await constraintOf(`INSERT INTO rides VALUES (2, NULL, '2020-01-01', 2)`)).toBe('rider')
  expect(await constraintOf(`INSERT INTO rides VALUES (2, 'bob', '2020-01-01', 0)`)).toBe('positive')
  expect(await constraintOf(`INSERT INTO rides VALUES (2, 'ada', NULL, 3)`)).toBe('one_a_day')
  expect(await constraintOf(`INSERT INTO rides VALUES (2, 'bob', '2020-01-01', 200)`)).toBe('no_twins')
  expect(await constraintOf(`INSERT INTO rides VALUES (2, 'ADA', '2020-01-01', 300)`)).toBe('loudest')
  expect(await constraintOf(`INSERT INTO rides VALUES (2, 'ADA', '2020-01-01', 3)`)).toBeNull()
  const definitions = (schema: string): Promise<unknown[]> =>
    values(
      kit,
      `SELECT replace(indexdef, '${schema}.', '') FROM pg_indexes WHERE schemaname = '${schema}' ORDER BY indexname`,
    )
  expect(await definitions(kit.schema)).toEqual(await definitions(database.businessSchema))
})

test("foreign keys point to the copies, and to the kit's keys", async () => {
  await database.rows(`
    CREATE TABLE riders (id integer PRIMARY KEY);
    CREATE TABLE rides (
      id integer PRIMARY KEY, next integer REFERENCES rides,
      guest integer CONSTRAINT of_guest REFERENCES riders ON DELETE CASCADE,
      rider text NOT NULL DEFAULT 's', ${keyReference('pawl')}
    );
    INSERT INTO riders VALUES (1);
    INSERT INTO pawl.idempotency_keys
      (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder)
    VALUES ('s', 'theirs', 'p', 1, repeat('0', 16), decode(repeat('00', 32), 'hex'), 1, '{}', gen_random_uuid());
    INSERT INTO rides SELECT 1, 1, 1, scope, id FROM pawl.idempotency_keys`)
  const before = await applicationIs()
  const kit = await copyingKit(pool)
  const client = await connect(kit, 'client')
  const [target] = await values(
    kit,
    `SELECT confrelid::regclass::text FROM pg_constraint
     WHERE conname LIKE 'rides_key_id%' AND conrelid = '${kit.schema}.rides'::regclass`,
  )
  expect(target).toBe(`${kit.pawlSchema}.idempotency_keys`)

  const ours = await insertKey(client, kit, 'ours')
  await client.query(`INSERT INTO rides VALUES (2, 1, 1, 's', '${ours}')`)
  await client.query(`DELETE FROM ${kit.pawlSchema}.idempotency_keys`)
  expect(await values(kit, `SELECT key_id FROM ${kit.schema}.rides WHERE id = 2`)).toEqual([null])
  await expect(client.query(`INSERT INTO rides VALUES (3, 1, 1, 's', '${randomUUID()}')`)).rejects.toThrow(
    'rides_key_id',
  )
  await expect(client.query('INSERT INTO rides VALUES (3, 1, 9)')).rejects.toThrow('of_guest')
  await expect(client.query('INSERT INTO rides VALUES (3, 9, 1)')).rejects.toThrow('rides_next_fkey')
  await client.query('DELETE FROM riders')
  expect(await values(kit, `SELECT count(*)::int FROM ${kit.schema}.rides`)).toEqual([0])
  expect(await applicationIs()).toEqual(before)
})

test('a partitioned table is copied as one, and a table that others inherit from with its own rows only', async () => {
  await database.rows(`
    CREATE TABLE events (id integer, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
    CREATE INDEX events_by_day ON events (day);
    CREATE TABLE events_2020 PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
    INSERT INTO events VALUES (1, '2020-02-02');
    CREATE TABLE parents (id integer);
    CREATE TABLE children () INHERITS (parents);
    INSERT INTO parents VALUES (1);
    INSERT INTO children VALUES (2)`)
  const kit = await copyingKit(pool)
  const client = await connect(kit, 'client')
  await client.query(`INSERT INTO events VALUES (2, '2033-03-03')`)
  expect(await values(kit, `SELECT id FROM ${kit.schema}.events ORDER BY 1`)).toEqual([1, 2])
  expect(await values(kit, `SELECT id FROM ${kit.schema}.parents`)).toEqual([1])
  expect(await values(kit, `SELECT id FROM ${kit.schema}.children`)).toEqual([2])
  expect(await tablesOf(kit)).toEqual(['children', 'events', 'parents'])
})

test("the framework's tables are not copied, but tables of the application with such a name are", async () => {
  const shared = await TestDatabase.create()
  onTestFinished(() => shared.drop())
  await migrate(shared.admin, { schema: shared.businessSchema })
  await shared.rows('CREATE TABLE rides (id integer)')
  expect(await tablesOf(await copyingKit(shared.pool()))).toEqual(['rides'])

  await database.rows(
    'CREATE TABLE effects (id integer); CREATE TABLE migrations (id integer); CREATE TABLE idempotency_keys (id integer)',
  )
  expect(await tablesOf(await copyingKit(pool))).toEqual(['effects', 'idempotency_keys', 'migrations'])
})

test('of several tables with the same name, the one that the search path shows is copied', async () => {
  const second = await TestDatabase.create()
  onTestFinished(() => second.drop())
  await database.rows(`CREATE TABLE notes AS SELECT 'first' AS body`)
  await second.rows(
    `CREATE TABLE notes AS SELECT 'second' AS body; CREATE TABLE more AS SELECT 'more' AS body`,
  )
  const options = `-c search_path=${database.businessSchema},${second.businessSchema}`
  const kit = await copyingKit(database.pool({ options }))
  expect(
    await values(kit, `SELECT body FROM ${kit.schema}.notes UNION SELECT body FROM ${kit.schema}.more`),
  ).toEqual(expect.arrayContaining(['first', 'more']))
  const client = await connect(kit, 'client')
  const { rows } = await client.query('SHOW search_path')
  expect(rows).toEqual([
    { search_path: `${kit.schema}, ${database.businessSchema},${second.businessSchema}` },
  ])
})

test.each([
  [
    'a table with too many rows',
    'CREATE TABLE large AS SELECT generate_series(1, 10001) AS id',
    'PAWL_KIT_TABLE_TOO_LARGE',
    'large',
  ],
  [
    'a row that the table itself would not take',
    `CREATE TABLE old (id integer); INSERT INTO old VALUES (-1); ALTER TABLE old ADD CHECK (id > 0) NOT VALID`,
    'PAWL_KIT_CANNOT_COPY',
    'old',
  ],
])('%s cannot be copied: the error names it and says what to do', async (_name, sql, code, table) => {
  await database.rows(sql)
  const error: unknown = await KitDatabase.open({
    pool,
    prepare: null,
  }).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({
    code,
    message: expect.stringMatching(`${database.businessSchema}.${table}.*prepare`),
  })
})

test('exactly as many rows as are allowed are copied', async () => {
  await database.rows('CREATE TABLE full_table AS SELECT generate_series(1, 10000) AS id')
  const kit = await copyingKit(pool)
  expect(await values(kit, `SELECT count(*)::int FROM ${kit.schema}.full_table`)).toEqual([10_000])
})

test("a reference to the application's keys needs the layout that they have: the error says so", async () => {
  const other = await TestDatabase.createPartitioned(2)
  onTestFinished(() => other.drop())
  await other.rows(`CREATE TABLE rides (rider text NOT NULL, ${keyReference('pawl', true)})`)
  const options = { pool: other.pool(), prepare: null }
  await expect(KitDatabase.open(options)).rejects.toMatchObject({
    code: 'PAWL_KIT_CANNOT_COPY',
    message: expect.stringContaining("pass crashKit the `layout` of your application's tables") as string,
  })
  const kit = await KitDatabase.open({ ...options, layout: { layout: 'partitioned', partitions: 2 } })
  onTestFinished(() => kit.close())
  expect(
    await values(
      kit,
      `SELECT count(*)::int FROM pg_inherits WHERE inhparent = '${kit.pawlSchema}.effects'::regclass`,
    ),
  ).toEqual([2])
})
