import { randomUUID } from 'node:crypto'
import { respond } from '@pawl/core'
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { wireOf } from '../../packages/core/src/driver/wire.js'
import { IS_PARTITIONED } from '../support/layout.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables, pipeline } from '../support/rides.js'
import { expectWholePool } from '../support/signals.js'
import { expectOneWholeRide } from '../support/whole-ride.js'
import { createNotesDatabase, newRequest, note, notesIn, runnerOf, type Tx } from './note-phases.js'

const database = await createNotesDatabase()
await createRideTables(database)
afterAll(() => database.drop())
beforeEach(async () => {
  await database.rows('TRUNCATE notes, rides, pawl.idempotency_keys, pawl.staged_jobs, pawl.effects CASCADE')
})

describe('where BEGIN fails, nothing of its phase is executed', () => {
  const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED'

  test.each<[string, (tx: Tx) => Promise<void>]>([
    ['one query', async (tx) => void (await note('one').execute(tx))],
    [
      'queries that are sent at once',
      async (tx) => void (await Promise.all([note('one').execute(tx), note('two').execute(tx)])),
    ],
    [
      'a query after one whose error was swallowed',
      async (tx) => {
        await note('one')
          .execute(tx)
          .catch(() => {})
        await note('two').execute(tx)
      },
    ],
    [
      'a swallowed error, and nothing after it',
      async (tx) => {
        await note('one')
          .execute(tx)
          .catch(() => {})
      },
    ],
    ['no query at all', async () => {}],
  ])('%s', async (_, phase) => {
    const proxy = await PostgresProxy.start(database.url)
    const pool = database.pool({ connectionString: proxy.url, max: 1 })
    const { engine, run } = runnerOf(database, pool, phase)
    const garbled = proxy.garble(BEGIN, BEGIN.replace('BEGIN', 'BEGUN'))
    expect(await run()).toMatchObject({ type: 'retry_later', reason: 'unknown_error' })
    await garbled
    expect(await notesIn(database)).toEqual([])
    expect(await database.rows('SELECT recovery_point, status FROM pawl.idempotency_keys')).toEqual([
      { recovery_point: 'started', status: 'running' },
    ])
    await engine.close()
    await proxy.close()
  })
})

test('queries that are sent at once run in order, in one transaction', async () => {
  const { engine, run } = runnerOf(database, database.pool(), async (tx) => {
    const texts = ['a', 'b', 'c', 'd']
    await Promise.all(texts.map((text) => note(text).execute(tx)))
    const { rows } = await sql<{
      ids: number
    }>`SELECT count(DISTINCT xmin::text)::int AS ids FROM notes`.execute(tx)
    expect(rows).toEqual([{ ids: 1 }])
  })
  expect((await run()).type).toBe('completed')
  expect(await notesIn(database)).toEqual(['a', 'b', 'c', 'd'])
  await engine.close()
})

test('a phase may send several statements in one text', async () => {
  const { engine, run } = runnerOf(database, database.pool(), async (tx) => {
    await sql.raw(`INSERT INTO notes VALUES ('a'); INSERT INTO notes VALUES ('b')`).execute(tx)
  })
  expect((await run()).type).toBe('completed')
  expect(await notesIn(database)).toEqual(['a', 'b'])
  await engine.close()
})

test('a savepoint as the first statement undoes what comes after it', async () => {
  const { engine, run } = runnerOf(database, database.pool(), async (tx) => {
    await sql`SAVEPOINT here`.execute(tx)
    await expect(sql`SELECT 1 / ${0}::int`.execute(tx)).rejects.toMatchObject({ code: '22012' })
    await sql`ROLLBACK TO SAVEPOINT here`.execute(tx)
    await note('after').execute(tx)
  })
  expect((await run()).type).toBe('completed')
  expect(await notesIn(database)).toEqual(['after'])
  await engine.close()
})

test('a value that cannot be sent fails its query, and the connection stays usable', async () => {
  const circle: Record<string, unknown> = {}
  circle['circle'] = circle
  const pool = database.pool({ max: 1 })
  const { engine, run } = runnerOf(database, pool, async (tx) => {
    await sql`INSERT INTO notes VALUES (${circle})`.execute(tx)
  })
  expect(await run()).toMatchObject({
    type: 'retry_later',
    error: { message: expect.stringContaining('circular') },
  })
  const after = runnerOf(database, pool, async (tx) => void (await note('after').execute(tx)))
  expect((await after.run()).type).toBe('completed')
  expect(await notesIn(database)).toEqual(['after'])
  await Promise.all([engine.close(), after.engine.close()])
})

test("a row that the application's parser cannot read fails its query, and commits nothing", async () => {
  const UUID_OID = 2950
  const types = {
    getTypeParser: (oid: number) => (value: string) => {
      if (oid === UUID_OID) throw new Error('not today')
      return value
    },
  }
  const { engine, run } = runnerOf(database, database.pool({ types }), async (tx) => {
    await note('lost').execute(tx)
    await sql`SELECT ${randomUUID()}::uuid`.execute(tx)
  })
  expect(await run()).toMatchObject({ type: 'retry_later', error: { message: 'not today' } })
  expect(await notesIn(database)).toEqual([])
  await engine.close()
})

test('a first query whose row cannot be read fails as well', async () => {
  const types = {
    getTypeParser: () => () => {
      throw new Error('not today')
    },
  }
  const { engine, run } = runnerOf(database, database.pool({ types }), async (tx) => {
    await sql`INSERT INTO notes VALUES (${'lost'}) RETURNING text`.execute(tx)
  })
  expect(await run()).toMatchObject({ type: 'retry_later', error: { message: 'not today' } })
  expect(await notesIn(database)).toEqual([])
  await engine.close()
})

/** How many messages went out on a pool's clients. */
function countMessages(pool: pg.Pool): () => number {
  let messages = 0
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...sent: unknown[]) => unknown
    client.query = ((...sent: unknown[]) => {
      messages++
      return query(...sent)
    }) as never
  })
  return () => messages
}

/** Like a client of `pg-native`, it cannot send statements together. */
class ClientWithoutPipelining extends pg.Client {
  static readonly Query = { prototype: {} }
}

describe('a ride costs', () => {
  test.each([
    { how: 'by default', pool: {}, engine: {}, messages: 6 },
    { how: 'with pipelining switched off', pool: {}, engine: { pipelining: false }, messages: 16 },
    {
      how: 'with a client that cannot pipeline',
      pool: { Client: ClientWithoutPipelining },
      engine: {},
      messages: 16,
    },
    { how: "with pg's own pipeline mode", pool: { pipeline: true }, engine: {}, messages: 6 },
    { how: 'with prepared statements', pool: {}, engine: { preparedStatements: true }, messages: 6 },
    {
      how: 'with prepared statements, one at a time',
      pool: {},
      engine: { preparedStatements: true, pipelining: false },
      // Each of the three transactions says first that plans about partitions are kept.
      messages: IS_PARTITIONED ? 19 : 16,
    },
  ])('$messages round trips $how', async ({ pool: poolOptions, engine: engineOptions, messages }) => {
    const provider = new Provider(inject('providerUrl'))
    const createRide = createRideOf(provider)
    const application_name = `ride_${randomUUID()}`
    const pool = database.pool({ ...poolOptions, application_name })
    const sent = countMessages(pool)
    const engine = createEngine({ pool, pipelines: [createRide], schema: database.schema, ...engineOptions })
    const ride = { scope: 'rider', key: randomUUID(), input: { amount: 700 } }
    // From then on it knows how the tables are stored.
    await engine.inspect('rider', 'none')
    const before = sent()
    expect(await engine.execute(createRide, ride)).toMatchObject({ type: 'completed' })
    expect(sent() - before).toBe(messages)
    expect(await engine.execute(createRide, ride)).toMatchObject({ type: 'replayed' })
    await expectOneWholeRide(database, provider)
    await expectWholePool(pool, database, application_name)
    await engine.close()
  })
})

test('a phase that waits for ever before its first query is ended, and its connection is free again', async () => {
  const pool = database.pool({ max: 1 })
  const noted = pipeline<null>({ name: 'note', version: 1, idleTimeoutMs: 100 })
    .local('noted', () => new Promise<void>(() => {}))
    .finish(() => respond(200))
  const engine = createEngine({ pool, pipelines: [noted], schema: database.schema })
  const outcome = await engine.execute(noted, newRequest())
  expect(outcome).toMatchObject({ type: 'retry_later', error: { code: 'PAWL_PHASE_TIMEOUT' } })
  expect((await pool.query('SELECT 1')).rows).toHaveLength(1)
  await engine.close()
})

describe("an application's own error is not taken for ours, whatever it says,", () => {
  const SAID = 'pawl: fenced off, rows: 0'

  test('in a query', async () => {
    const { engine, run } = runnerOf(database, database.pool(), async (tx) => {
      await sql`SELECT ${SAID}::text::integer`.execute(tx)
    })
    expect(await run()).toMatchObject({ type: 'retry_later', error: { code: '22P02' } })
    await engine.close()
  })

  test('at COMMIT', async () => {
    await database.rows('CREATE TABLE numbers (text text)')
    await database.rows(
      `CREATE FUNCTION is_number() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN PERFORM NEW.text::integer; RETURN NULL; END $$`,
    )
    await database.rows(
      `CREATE CONSTRAINT TRIGGER numbers AFTER INSERT ON numbers DEFERRABLE INITIALLY DEFERRED
         FOR EACH ROW EXECUTE FUNCTION is_number()`,
    )
    const { engine, run } = runnerOf(database, database.pool(), async (tx) => {
      await sql`INSERT INTO numbers VALUES (${SAID})`.execute(tx)
    })
    expect(await run()).toMatchObject({ type: 'retry_later', error: { code: '22P02' } })
    await engine.close()
  })
})

test('a BEGIN that fails in part discards its connection', async () => {
  const proxy = await PostgresProxy.start(database.url)
  const pool = database.pool({ connectionString: proxy.url, max: 1 })
  const destroyed: boolean[] = []
  pool.on('release', (error) => void destroyed.push(error !== undefined))
  const { engine, run } = runnerOf(database, pool, async (tx) => void (await note('lost').execute(tx)))
  const garbled = proxy.garble(
    `SELECT pg_catalog.set_config('statement_timeout'`,
    `SELECT pg_catalog.set_confug('statement_timeout'`,
  )
  expect(await run()).toMatchObject({ type: 'retry_later' })
  await garbled
  // The first served the reservation and the phase, and the second gave the key back.
  expect(destroyed).toEqual([true, false])
  expect(await notesIn(database)).toEqual([])
  await engine.close()
  await proxy.close()
})

test('what follows a statement that cannot be sent is not executed', async () => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  const circle: Record<string, unknown> = {}
  circle['circle'] = circle
  const statements = [
    { text: 'SELECT $1::json', values: [circle] },
    { text: `INSERT INTO ${database.businessSchema}.notes VALUES ($1)`, values: ['lost'] },
  ]
  const error = await new Promise((resolve) =>
    wireOf(pg.Client).sendTogether?.(client as never, statements, resolve),
  )
  expect(String(error)).toContain('circular')
  expect(await notesIn(database)).toEqual([])
  await client.end()
})
