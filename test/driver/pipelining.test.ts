import { randomUUID } from 'node:crypto'
import { migrate, respond } from '@pawl/core'
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { wireOf } from '../../packages/core/src/driver/wire.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables, pipeline } from '../support/rides.js'
import { expectWholePool } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { expectOneWholeRide } from '../support/whole-ride.js'

const database = await TestDatabase.create()
await createRideTables(database)
await database.rows('CREATE TABLE notes (text text)')
afterAll(() => database.drop())
beforeEach(async () => {
  await database.rows('TRUNCATE notes, rides, pawl.idempotency_keys, pawl.staged_jobs, pawl.effects CASCADE')
})

const notes = async () =>
  (await database.rows<{ text: string }>('SELECT text FROM notes')).map(({ text }) => text)
const note = (text: string) => sql`INSERT INTO notes VALUES (${text})`
const request = () => ({ scope: 's', key: randomUUID(), input: null })

type Phase = Parameters<ReturnType<typeof pipeline<null>>['local']>[1]
type Tx = Parameters<Phase>[0]['tx']

/** A pipeline of one phase, and an engine that runs it on a pool. */
function runnerOf(pool: pg.Pool, phase: (tx: Tx) => Promise<void>) {
  const noted = pipeline<null>({ name: 'note', version: 1 })
    .local('noted', ({ tx }) => phase(tx))
    .finish(() => respond(200))
  const engine = createEngine({ pool, pipelines: [noted], schema: database.schema })
  return { engine, run: () => engine.execute(noted, request()) }
}

describe('where BEGIN fails, nothing of its phase is executed', () => {
  const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED'

  test.each<[string, (tx: Tx) => Promise<void>]>([
    ['one query', async (tx) => void (await note('one').execute(tx))],
    [
      'queries that are made at once',
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
    const { engine, run } = runnerOf(pool, phase)
    const garbled = proxy.garble(BEGIN, BEGIN.replace('BEGIN', 'BEGUN'))
    expect(await run()).toMatchObject({ type: 'retry_later', reason: 'unknown_error' })
    await garbled
    expect(await notes()).toEqual([])
    expect(await database.rows('SELECT recovery_point, status FROM pawl.idempotency_keys')).toEqual([
      { recovery_point: 'started', status: 'running' },
    ])
    await engine.close()
    await proxy.close()
  })
})

test('queries that are made at once run in their order, in the one transaction', async () => {
  const { engine, run } = runnerOf(database.pool(), async (tx) => {
    const texts = ['a', 'b', 'c', 'd']
    await Promise.all(texts.map((text) => note(text).execute(tx)))
    const { rows } = await sql<{
      ids: number
    }>`SELECT count(DISTINCT xmin::text)::int AS ids FROM notes`.execute(tx)
    expect(rows).toEqual([{ ids: 1 }])
  })
  expect((await run()).type).toBe('completed')
  expect(await notes()).toEqual(['a', 'b', 'c', 'd'])
  await engine.close()
})

test('several statements in one text are a phase like any other', async () => {
  const { engine, run } = runnerOf(database.pool(), async (tx) => {
    await sql.raw(`INSERT INTO notes VALUES ('a'); INSERT INTO notes VALUES ('b')`).execute(tx)
  })
  expect((await run()).type).toBe('completed')
  expect(await notes()).toEqual(['a', 'b'])
  await engine.close()
})

test('a savepoint as the first statement undoes what comes after it', async () => {
  const { engine, run } = runnerOf(database.pool(), async (tx) => {
    await sql`SAVEPOINT here`.execute(tx)
    await expect(sql`SELECT 1 / ${0}::int`.execute(tx)).rejects.toMatchObject({ code: '22012' })
    await sql`ROLLBACK TO SAVEPOINT here`.execute(tx)
    await note('after').execute(tx)
  })
  expect((await run()).type).toBe('completed')
  expect(await notes()).toEqual(['after'])
  await engine.close()
})

test('a value that cannot be sent fails its query, and the connection goes on', async () => {
  const circle: Record<string, unknown> = {}
  circle['circle'] = circle
  const pool = database.pool({ max: 1 })
  const { engine, run } = runnerOf(pool, async (tx) => {
    await sql`INSERT INTO notes VALUES (${circle})`.execute(tx)
  })
  expect(await run()).toMatchObject({
    type: 'retry_later',
    error: { message: expect.stringContaining('circular') },
  })
  const after = runnerOf(pool, async (tx) => void (await note('after').execute(tx)))
  expect((await after.run()).type).toBe('completed')
  expect(await notes()).toEqual(['after'])
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
  const { engine, run } = runnerOf(database.pool({ types }), async (tx) => {
    await note('lost').execute(tx)
    await sql`SELECT ${randomUUID()}::uuid`.execute(tx)
  })
  expect(await run()).toMatchObject({ type: 'retry_later', error: { message: 'not today' } })
  expect(await notes()).toEqual([])
  await engine.close()
})

test('a first query whose row cannot be read fails as well', async () => {
  const types = {
    getTypeParser: () => () => {
      throw new Error('not today')
    },
  }
  const { engine, run } = runnerOf(database.pool({ types }), async (tx) => {
    await sql`INSERT INTO notes VALUES (${'lost'}) RETURNING text`.execute(tx)
  })
  expect(await run()).toMatchObject({ type: 'retry_later', error: { message: 'not today' } })
  expect(await notes()).toEqual([])
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

/** A client as `pg-native` has one: it cannot send statements together. */
class OtherClient extends pg.Client {
  static readonly Query = { prototype: {} }
}

describe('a ride, whatever the client can do', () => {
  test.each([
    { how: 'as pg is', pool: {}, engine: {}, messages: 6 },
    { how: 'switched off', pool: {}, engine: { pipelining: false }, messages: 15 },
    { how: 'with a client that cannot', pool: { Client: OtherClient }, engine: {}, messages: 15 },
    { how: "with pg's own pipeline mode", pool: { pipeline: true }, engine: {}, messages: 6 },
    { how: 'with prepared statements', pool: {}, engine: { preparedStatements: true }, messages: 6 },
    {
      how: 'with prepared statements, one at a time',
      pool: {},
      engine: { preparedStatements: true, pipelining: false },
      messages: 15,
    },
  ])('$how: $messages round trips', async ({ pool: poolOptions, engine: engineOptions, messages }) => {
    const provider = new Provider(inject('providerUrl'))
    const createRide = createRideOf(provider)
    const application_name = `ride_${randomUUID()}`
    const pool = database.pool({ ...poolOptions, application_name })
    const sent = countMessages(pool)
    const engine = createEngine({ pool, pipelines: [createRide], schema: database.schema, ...engineOptions })
    const ride = { scope: 'rider', key: randomUUID(), input: { amount: 700 } }
    expect(await engine.execute(createRide, ride)).toMatchObject({ type: 'completed' })
    expect(sent()).toBe(messages)
    expect(await engine.execute(createRide, ride)).toMatchObject({ type: 'replayed' })
    await expectOneWholeRide(database, provider)
    await expectWholePool(pool, database, application_name)
    await engine.close()
  })
})

test('a statement that was skipped is not taken for prepared', async () => {
  const pool = database.pool({ max: 1 })
  let connections = 0
  pool.on('connect', () => void connections++)
  const engineOf = (phase: (tx: Tx) => Promise<void>) => {
    const noted = pipeline<null>({ name: 'note', version: 1 })
      .local('noted', ({ tx }) => phase(tx))
      .finish(() => respond(200))
    const engine = createEngine({
      pool,
      pipelines: [noted],
      schema: database.schema,
      preparedStatements: true,
    })
    return { engine, run: () => engine.execute(noted, request()) }
  }
  // The advance fails, since another has the key by now; the COMMIT behind it is never prepared.
  const fenced = engineOf(async (tx) => {
    await note('lost').execute(tx)
    await database.rows('UPDATE pawl.idempotency_keys SET fence = fence + 1')
  })
  expect(await fenced.run()).toMatchObject({ type: 'in_flight', fencedOff: true })
  const whole = engineOf(async (tx) => void (await note('kept').execute(tx)))
  expect((await whole.run()).type).toBe('completed')
  expect(await notes()).toEqual(['kept'])
  expect(connections).toBe(1)
  await Promise.all([fenced.engine.close(), whole.engine.close()])
})

test('two schemas on one connection prepare statements of their own', async () => {
  const second = `${database.schema}_second`
  const once = pipeline<null>({ name: 'once', version: 1 }).finish(() => respond(200))
  const pool = database.pool({ max: 1 })
  await migrate(pool, { schema: second })
  for (const schema of [database.schema, second, database.schema, second]) {
    const engine = createEngine({ pool, pipelines: [once], schema, preparedStatements: true })
    expect((await engine.execute(once, request())).type).toBe('completed')
    await engine.close()
  }
  expect(await database.rows(`SELECT FROM ${second}.idempotency_keys`)).toHaveLength(2)
  await database.rows(`DROP SCHEMA ${second} CASCADE`)
})

test('a phase that waits for ever before its first query is ended, and its connection is free again', async () => {
  const pool = database.pool({ max: 1 })
  const noted = pipeline<null>({ name: 'note', version: 1, idleTimeoutMs: 100 })
    .local('noted', () => new Promise<void>(() => {}))
    .finish(() => respond(200))
  const engine = createEngine({ pool, pipelines: [noted], schema: database.schema })
  const outcome = await engine.execute(noted, request())
  expect(outcome).toMatchObject({ type: 'retry_later', error: { code: 'PAWL_PHASE_TIMEOUT' } })
  expect((await pool.query('SELECT 1')).rows).toHaveLength(1)
  await engine.close()
})

describe("an application's own error is none of ours, whatever it says", () => {
  const SAID = 'pawl: fenced off, rows: 0'

  test('in a query', async () => {
    const { engine, run } = runnerOf(database.pool(), async (tx) => {
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
    const { engine, run } = runnerOf(database.pool(), async (tx) => {
      await sql`INSERT INTO numbers VALUES (${SAID})`.execute(tx)
    })
    expect(await run()).toMatchObject({ type: 'retry_later', error: { code: '22P02' } })
    await engine.close()
  })
})

test.each([
  ['DISCARD ALL'],
  ['DEALLOCATE ALL'],
  ['ALTER TABLE pawl.idempotency_keys ALTER COLUMN unstuck_at TYPE timestamptz(3)'],
])('prepared statements that are of no use any more are prepared anew: %s', async (statement) => {
  const noted = pipeline<null>({ name: 'note', version: 1 })
    .local('noted', async ({ tx }) => void (await note('noted').execute(tx)))
    .finish(() => respond(200))
  const pool = database.pool({ max: 1 })
  const engine = createEngine({ pool, pipelines: [noted], schema: database.schema, preparedStatements: true })
  expect((await engine.execute(noted, request())).type).toBe('completed')
  await pool.query(statement.replace('pawl.', `${database.schema}.`))
  expect((await engine.execute(noted, request())).type).toBe('completed')
  expect(await notes()).toEqual(['noted', 'noted'])
  await engine.close()
})

test('a BEGIN that fails in part takes its connection along', async () => {
  const proxy = await PostgresProxy.start(database.url)
  const pool = database.pool({ connectionString: proxy.url, max: 1 })
  const destroyed: boolean[] = []
  pool.on('release', (error) => void destroyed.push(error !== undefined))
  const { engine, run } = runnerOf(pool, async (tx) => void (await note('lost').execute(tx)))
  const garbled = proxy.garble(
    `SELECT pg_catalog.set_config('statement_timeout'`,
    `SELECT pg_catalog.set_confug('statement_timeout'`,
  )
  expect(await run()).toMatchObject({ type: 'retry_later' })
  await garbled
  // The one of the reservation and the phase, and the one that gave the key back.
  expect(destroyed).toEqual([true, false])
  expect(await notes()).toEqual([])
  await engine.close()
  await proxy.close()
})

type Traced = { text: string }

/** As tracers do: older ones give the object that is sent a getter and no setter, newer ones assign. */
const TRACERS: readonly [string, (query: Traced, text: string) => void][] = [
  ['by a getter', (query, text) => void Object.defineProperty(query, 'text', { get: () => text })],
  ['by assignment', (query, text) => void (query.text = text)],
]

test.each(TRACERS)(
  'a tracer that writes texts of its own into queries, %s, changes nothing',
  async (_, trace) => {
    class TracedClient extends pg.Client {
      override query = ((...sent: unknown[]): unknown => {
        const [query] = sent as [Traced]
        trace(query, `/* traced */ ${query.text}`)
        return (pg.Client.prototype.query as (...sent: unknown[]) => unknown).apply(this, sent)
      }) as never
    }
    const pool = database.pool({ max: 1, Client: TracedClient })
    const noted = pipeline<null>({ name: 'note', version: 1 })
      .local('noted', async ({ tx }) => void (await note('noted').execute(tx)))
      .finish(() => respond(200))
    for (const preparedStatements of [false, true, true]) {
      const engine = createEngine({ pool, pipelines: [noted], schema: database.schema, preparedStatements })
      expect((await engine.execute(noted, request())).type).toBe('completed')
      await engine.close()
    }
    expect(await notes()).toEqual(['noted', 'noted', 'noted'])
  },
)

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
  expect(await notes()).toEqual([])
  await client.end()
})

test('under SERIALIZABLE, advances are planned each time, for the sake of their index; all else is kept prepared', async () => {
  const pool = database.pool({ max: 1 })
  const noted = pipeline<null>({ name: 'note', version: 1, isolation: 'serializable' })
    .local('noted', async ({ tx }) => void (await note('noted').execute(tx)))
    .finish(() => respond(200))
  const engine = createEngine({ pool, pipelines: [noted], schema: database.schema, preparedStatements: true })
  expect((await engine.execute(noted, request())).type).toBe('completed')
  const { rows } = await pool.query<{ name: string }>('SELECT name FROM pg_prepared_statements ORDER BY name')
  expect(rows.map(({ name }) => name.replace(/_[0-9a-f]{16}$/, ''))).toEqual([
    'pawl_begin',
    'pawl_commit',
    'pawl_insert_key',
    'pawl_lock_timeout',
    'pawl_read_committed',
    'pawl_set_timeouts',
  ])
  await engine.close()
})
