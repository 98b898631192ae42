import { pawl, respond } from '@pawl/core'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import type { Commit } from '../../packages/crash-kit/src/history.js'
import { connect, insertKey, kitWith, values } from './kit-with.js'

const NOTES = 'CREATE TABLE notes (id integer PRIMARY KEY, body text)'

/** `actor: OP table, OP table` for each commit. */
const outline = (commits: readonly Commit[]): string[] =>
  commits.map(
    ({ actor, changes }) => `${actor}: ${changes.map(({ op, table }) => `${op} ${table}`).join(', ')}`,
  )

test('the history has every committed change, with its author and the row before and after', async () => {
  const kit = await kitWith(NOTES)
  const mark = await kit.mark()
  const client = await connect(kit, 'client')
  const rival = await connect(kit, 'a rival')
  const [before] = await values(kit, 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)')
  await client.query(`INSERT INTO notes VALUES (1, 'one')`)
  await rival.query(`UPDATE notes SET body = 'uno'`)
  await client.query('DELETE FROM notes')
  const [after] = await values(kit, 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)')

  const commits = await kit.commitsSince(mark)
  expect(commits.map(({ actor }) => actor)).toEqual(['client', 'a rival', 'client'])
  const [inserted, updated, deleted] = commits.flatMap(({ changes }) => changes)
  const shared = { table: 'notes', framework: false }
  expect(inserted).toMatchObject({ ...shared, op: 'INSERT', before: null, after: { id: 1, body: 'one' } })
  expect(updated).toMatchObject({
    ...shared,
    op: 'UPDATE',
    before: { id: 1, body: 'one' },
    after: { id: 1, body: 'uno' },
  })
  expect(deleted).toMatchObject({ ...shared, op: 'DELETE', before: { id: 1, body: 'uno' }, after: null })
  for (const change of [inserted, updated, deleted]) {
    expect(change?.atMs).toBeGreaterThanOrEqual(Number(before))
    expect(change?.atMs).toBeLessThanOrEqual(Number(after))
  }
})

test('the history has nothing that was rolled back, and a transaction with savepoints as one commit', async () => {
  const kit = await kitWith(NOTES)
  const mark = await kit.mark()
  const client = await connect(kit, 'client')
  await client.query('BEGIN; INSERT INTO notes VALUES (1); ROLLBACK')
  await client.query(`BEGIN; INSERT INTO notes VALUES (2);
    SAVEPOINT a; INSERT INTO notes VALUES (3); ROLLBACK TO a;
    SAVEPOINT b; INSERT INTO notes VALUES (4); RELEASE b; COMMIT`)
  const commits = await kit.commitsSince(mark)
  expect(outline(commits)).toEqual(['client: INSERT notes, INSERT notes'])
  expect(commits[0]?.changes.map(({ after }) => after?.['id'])).toEqual([2, 4])
})

test('the history has what an engine writes: the key, its effects and its jobs, with the business rows', async () => {
  const kit = await kitWith(NOTES)
  const { pipeline, createEngine } = pawl<{ notes: { id: number; body: string } }>()
  const writeNote = pipeline<{ id: number }>({ name: 'write-note', version: 1 })
    .local('noted', async ({ tx, input }) => {
      await tx.insertInto('notes').values({ id: input.id, body: 'x' }).execute()
    })
    .foreign('sent', { call: async () => ({ id: 'm_1' }), settle: () => {}, reference: ({ id }) => id })
    .finish(async ({ stage }) => {
      await stage('tell', {})
      return respond(204)
    })
  const pool = new pg.Pool(kit.poolConfig('client'))
  const engine = createEngine({ pool, schema: kit.pawlSchema, pipelines: [writeNote] })
  const mark = await kit.mark()
  expect(await engine.execute(writeNote, { scope: 's', key: 'k', input: { id: 7 } })).toMatchObject({
    type: 'completed',
  })
  await engine.close()
  await pool.end()

  const commits = await kit.commitsSince(mark)
  expect(outline(commits)).toEqual([
    'client: INSERT idempotency_keys',
    'client: INSERT notes, UPDATE idempotency_keys',
    'client: INSERT effects, UPDATE idempotency_keys',
    'client: INSERT staged_jobs, UPDATE idempotency_keys',
  ])
  expect(commits.flatMap(({ changes }) => changes).filter(({ framework }) => !framework)).toHaveLength(1)
  const last = commits.at(-1)?.changes.at(-1)?.after
  expect(last).toMatchObject({ recovery_point: 'finished', response_status: 204, response_body: '\\x' })
  expect(await kit.keyRow('s', 'k')).toEqual(last)
  expect(await kit.keyRow('s', 'other')).toBeNull()
})

test('commits that wrote the key are in the order of those writes, whichever began first', async () => {
  const kit = await kitWith(NOTES)
  const [first, second] = [await connect(kit, 'first'), await connect(kit, 'second')]
  await insertKey(first, kit, 'k')
  const mark = await kit.mark()
  const touch = `UPDATE ${kit.pawlSchema}.idempotency_keys SET attempts = attempts + 1`
  await first.query('BEGIN; INSERT INTO notes VALUES (1)')
  await second.query(`BEGIN; INSERT INTO notes VALUES (2); ${touch}; COMMIT`)
  await first.query(`${touch}; COMMIT`)

  const commits = await kit.commitsSince(mark)
  expect(outline(commits)).toEqual([
    'second: INSERT notes, UPDATE idempotency_keys',
    'first: INSERT notes, UPDATE idempotency_keys',
  ])
  // Within a commit, in the order of writing.
  for (const { changes } of commits) expect(changes[0]?.seq).toBeLessThan(changes[1]?.seq ?? 0)
})

test('what is committed after a mark belongs after it, whenever it was written', async () => {
  const kit = await kitWith(NOTES)
  const [slow, quick] = [await connect(kit, 'slow'), await connect(kit, 'quick')]
  const first = await kit.mark()
  await slow.query('BEGIN; INSERT INTO notes VALUES (1)')
  await quick.query('INSERT INTO notes VALUES (2)')
  const second = await kit.mark()
  await slow.query('COMMIT')
  expect(outline(await kit.commitsSince(first))).toEqual(['slow: INSERT notes', 'quick: INSERT notes'])
  expect(outline(await kit.commitsSince(second))).toEqual(['slow: INSERT notes'])
  expect(await kit.commitsSince(await kit.mark())).toEqual([])
})

test('NUL and lone surrogates in json do not get in the way', async () => {
  const kit = await kitWith('CREATE TABLE payloads (id integer PRIMARY KEY, payload json)')
  const client = await connect(kit, 'client')
  const mark = await kit.mark()
  await insertKey(client, kit, 'k')
  const state = { nul: 'a\u0000b', surrogate: '\ud800' }
  const json = JSON.stringify(state)
  await client.query(`UPDATE ${kit.pawlSchema}.idempotency_keys SET state = $1, intent = $2`, [
    json,
    JSON.stringify({ kind: 'called', phase: 'p', result: state }),
  ])
  await client.query('INSERT INTO payloads VALUES (1, $1)', [json])

  expect((await kit.commitsSince(mark)).map(({ changes }) => changes[0]?.after)).toMatchObject([
    { state: {} },
    { state, intent: { result: state } },
    { payload: state },
  ])
  expect(await kit.passTime('s', 'k', 1_000)).toBe('passed')
  expect(await kit.keyRow('s', 'k')).toMatchObject({ state, intent: { kind: 'called', result: state } })
  await kit.loseCommitsSince(mark)
  expect(await kit.keyRow('s', 'k')).toBeNull()
  expect(await values(kit, 'SELECT count(*)::int FROM payloads')).toEqual([0])
})

test('a value is written the same way, whatever the session and the application have set', async () => {
  const kit = await kitWith('CREATE TABLE moments (at timestamptz, span interval, bytes bytea, big bigint)')
  const client = await connect(kit, 'client')
  const mark = await kit.mark()
  const insert = `INSERT INTO moments VALUES ('2020-01-02 03:04:05.678901Z', '1 day 2 hours', '\\x00ff', 7)`
  await client.query(insert)
  await client.query(
    `SET datestyle = 'SQL, DMY'; SET timezone = 'Asia/Tokyo'; SET bytea_output = 'escape'; SET intervalstyle = 'iso_8601'`,
  )
  await client.query(insert)

  for (const type of [pg.types.builtins.JSON, pg.types.builtins.INT8, pg.types.builtins.BOOL]) {
    const parser = pg.types.getTypeParser(type) as (text: string) => unknown
    pg.types.setTypeParser(type, () => 'spoilt')
    onTestFinished(() => pg.types.setTypeParser(type, parser))
  }
  const [one, other] = (await kit.commitsSince(mark)).flatMap(({ changes }) => changes)
  expect(one?.after).toEqual({
    at: '2020-01-02T03:04:05.678901+00:00',
    span: '1 day 02:00:00',
    bytes: '\\x00ff',
    big: 7,
  })
  expect(other?.after).toEqual(one?.after)
  expect(one?.framework).toBe(false)
})

test('a partitioned table is recorded once, under its own name', async () => {
  const kit = await kitWith(`CREATE TABLE events (id integer, at date) PARTITION BY RANGE (at);
    CREATE TABLE events_2020 PARTITION OF events FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')`)
  const client = await connect(kit, 'client')
  const mark = await kit.mark()
  await client.query(`INSERT INTO events VALUES (1, '2020-05-05')`)
  await client.query(`INSERT INTO events_2020 VALUES (2, '2020-05-06')`)
  expect(outline(await kit.commitsSince(mark))).toEqual(['client: INSERT events', 'client: INSERT events'])
})

test('unrelated serializable transactions do not conflict in the audit', async () => {
  const kit = await kitWith(NOTES)
  const clients = await Promise.all(Array.from({ length: 20 }, (_, n) => connect(kit, `client ${n}`)))
  const mark = await kit.mark()
  const all = (sql: (n: number) => string): Promise<unknown> =>
    Promise.all(clients.map((client, n) => client.query(sql(n))))
  await all((n) => `BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO notes VALUES (${n})`)
  await all((n) => `INSERT INTO notes VALUES (${n} + 100)`)
  // A single conflict would reject here.
  await all(() => 'COMMIT')
  expect(await kit.commitsSince(mark)).toHaveLength(20)
  await Promise.all(clients.map((client) => client.end()))
})
