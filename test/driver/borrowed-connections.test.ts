import { randomUUID } from 'node:crypto'
import { type Engine, respond } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { sql, type Transaction } from 'kysely'
import type pg from 'pg'
import { afterAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables, type Database, pipeline } from '../support/rides.js'
import { expectWholePool } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())
beforeEach(async () => {
  await database.rows('TRUNCATE audit, rides, pawl.idempotency_keys, pawl.staged_jobs, pawl.effects CASCADE')
})

const note = pipeline<null>({ name: 'note', version: 1 })
  .local('noted', async ({ tx }) => void (await tx.insertInto('audit').values({ what: 'noted' }).execute()))
  .finish(() => respond(200))
const request = () => ({ scope: 's', key: randomUUID(), input: null })
const keys = () => database.rows('SELECT FROM pawl.idempotency_keys')

/** Leaves an open transaction on each of a pool's connections, as code that forgets its COMMIT does. */
async function leaveOpen(pool: pg.Pool, clients: number, how: 'open' | 'failed' = 'open'): Promise<void> {
  const taken = await Promise.all(Array.from({ length: clients }, () => pool.connect()))
  for (const client of taken) {
    await client.query('BEGIN')
    if (how === 'failed') await client.query('SELECT 1 / 0').catch(() => {})
    client.release()
  }
}

/** A pool of one, and its only client, which somebody else still has. */
async function shared() {
  const pool = database.pool({ max: 1 })
  const client = await pool.connect()
  client.release()
  return { pool, client }
}

const isolated = (level: string) =>
  database.pool({
    options: `-c search_path=${database.businessSchema} -c default_transaction_isolation=${level}`,
  })

describe('connections that somebody has left in a transaction', () => {
  const LEFT = 3
  const open = () => {
    const application_name = `left_${randomUUID()}`
    const pool = database.pool({ max: LEFT, application_name })
    const engine = createEngine({ pool, pipelines: [note], schema: database.schema })
    return { pool, engine, whole: () => expectWholePool(pool, database, application_name) }
  }

  test.each(['open', 'failed'] as const)(
    'are discarded, and what was enqueued is stored (%s)',
    async (how) => {
      const { pool, engine, whole } = open()
      await leaveOpen(pool, LEFT, how)
      expect(await engine.enqueue(note, request())).toMatchObject({ type: 'enqueued', fresh: true })
      expect(await keys()).toHaveLength(1)
      await whole()
      await engine.close()
    },
  )

  test('are discarded, and what was executed is stored', async () => {
    const { pool, engine, whole } = open()
    await leaveOpen(pool, LEFT)
    expect(await engine.execute(note, request())).toMatchObject({ type: 'completed' })
    expect(await database.rows('SELECT FROM audit')).toHaveLength(1)
    await whole()
    await engine.close()
  })

  test('by pool.query with a BEGIN, among requests, lose none of them', async () => {
    const { pool, engine } = open()
    const outcomes = await Promise.all(
      Array.from({ length: 60 }, async (_, n) => {
        if (n % 3 === 0) await pool.query('BEGIN')
        return engine.enqueue(note, request())
      }),
    )
    expect(new Set(outcomes.map(({ type }) => type))).toEqual(new Set(['enqueued']))
    expect(await keys()).toHaveLength(60)
    await engine.close()
  })

  test('are refused, with an error that says why, if every new connection of the pool is in one', async () => {
    const pool = database.pool({ max: 2 })
    // This runs first on a new connection, which is in a transaction before the engine gets it.
    Object.assign(pool.options, { onConnect: (client: pg.ClientBase) => client.query('BEGIN') })
    const engine = createEngine({ pool, pipelines: [note], schema: database.schema })
    expect(await engine.execute(note, request())).toMatchObject({
      type: 'unavailable',
      error: { code: 'PAWL_NO_CONNECTION', message: expect.stringContaining('leaves a BEGIN behind') },
    })
    await engine.close()
  })
})

describe('a client that somebody goes on using after its release', () => {
  test('and sends BEGIN in front of a statement makes that fail, and it is sent again on another', async () => {
    const { pool, client } = await shared()
    const engine = createEngine({ pool, pipelines: [note], schema: database.schema })
    // It is sent when the engine has just taken the client, and so before its first statement.
    pool.once('acquire', () => void client.query('BEGIN').catch(() => {}))
    expect(await engine.enqueue(note, request())).toMatchObject({ type: 'enqueued' })
    expect(await keys()).toHaveLength(1)
    await engine.close()
  })

  test('and has sent a BEGIN that we know about by then keeps a statement from being sent', async () => {
    // A sequence, because it is not undone with their transaction.
    await database.rows(`CREATE SEQUENCE attempts;
      CREATE FUNCTION count_attempt() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM nextval('${database.businessSchema}.attempts'); RETURN NULL; END $$;
      CREATE TRIGGER count_attempt BEFORE INSERT ON pawl.idempotency_keys EXECUTE FUNCTION count_attempt()`)
    const { pool, client } = await shared()
    let begun = false
    const engine = createProbedEngine<Database>(
      { pool, pipelines: [note], schema: database.schema },
      async ({ step, when }) => {
        if (begun || step !== 'insert_key' || when !== 'before') return
        begun = true
        await client.query('BEGIN')
      },
    )
    expect(await engine.enqueue(note, request())).toMatchObject({ type: 'enqueued' })
    expect(await keys()).toHaveLength(1)
    expect(await database.rows('SELECT last_value::int FROM attempts')).toEqual([{ last_value: 1 }])
    await database.rows('DROP TRIGGER count_attempt ON pawl.idempotency_keys')
    await engine.close()
  })

  test('and sends BEGIN in front of a phase makes it run on another, with nothing of it in their transaction', async () => {
    const { pool, client } = await shared()
    let begun = false
    const engine = createProbedEngine<Database>(
      { pool, pipelines: [note], schema: database.schema },
      async ({ phase, step, when }) => {
        if (begun || phase !== 'noted' || step !== 'begin' || when !== 'before') return
        begun = true
        await client.query("BEGIN; INSERT INTO audit (what) VALUES ('theirs')")
      },
    )
    expect(await engine.execute(note, request())).toMatchObject({ type: 'completed' })
    expect(begun).toBe(true)
    expect(await database.rows('SELECT what FROM audit')).toEqual([{ what: 'noted' }])
    await engine.close()
  })

  test("and sends COMMIT in the middle of a phase makes the key stuck, since the phase's rows may have been committed", async () => {
    const { pool, client } = await shared()
    let runs = 0
    const interrupted = pipeline<null>({ name: 'interrupted', version: 1 })
      .local('noted', async ({ tx }) => {
        runs++
        await tx.insertInto('audit').values({ what: 'noted' }).execute()
        await client.query('COMMIT')
        await tx.insertInto('audit').values({ what: 'alone' }).execute()
      })
      .finish(() => respond(200))
    const engine = createEngine({ pool, pipelines: [interrupted], schema: database.schema })
    const asked = request()
    expect(await engine.execute(interrupted, asked)).toMatchObject({
      type: 'stuck',
      reason: 'transaction_ended',
    })
    expect(await engine.execute(interrupted, asked)).toMatchObject({ type: 'stuck' })
    expect(runs).toBe(1)
    expect(await database.rows('SELECT what FROM audit')).toEqual([{ what: 'noted' }])
    await engine.close()
  })

  test('and sends ROLLBACK and BEGIN in the middle of a phase makes the key stuck, since rows of the phase are gone', async () => {
    const { pool, client } = await shared()
    const interrupted = pipeline<null>({ name: 'interrupted', version: 1 })
      .local('noted', async ({ tx }) => {
        await tx.insertInto('audit').values({ what: 'gone' }).execute()
        await client.query('ROLLBACK')
        await client.query('BEGIN')
        await tx.insertInto('audit').values({ what: 'in another' }).execute()
      })
      .finish(() => respond(200))
    const engine = createEngine({ pool, pipelines: [interrupted], schema: database.schema })
    expect(await engine.execute(interrupted, request())).toMatchObject({
      type: 'stuck',
      reason: 'transaction_ended',
    })
    expect(await database.rows('SELECT what FROM audit')).toEqual([])
    await engine.close()
  })
})

test("somebody else's error between the advance and its COMMIT commits nothing, and nobody is told that it was committed", async () => {
  const { pool, client } = await shared()
  let failed = false
  const engine = createProbedEngine<Database>(
    { pool, pipelines: [note], schema: database.schema, pipelining: false },
    async ({ phase, step, when }) => {
      if (failed || phase !== 'finished' || step !== 'commit' || when !== 'before') return
      failed = true
      await client.query('SELECT 1 / 0').catch(() => {})
    },
  )
  const asked = request()
  // The server answers COMMIT with ROLLBACK, and without an error.
  expect(await engine.execute(note, asked)).toMatchObject({
    type: 'retry_later',
    recoveryPoint: 'noted',
    error: { code: 'PAWL_TRANSACTION_ABORTED' },
  })
  expect(await engine.execute(note, asked)).toMatchObject({ type: 'completed' })
  await engine.close()
})

describe('whatever the defaults of the database are', () => {
  test.each([true, false])(
    'our statements run in READ COMMITTED, with pipelining: %s',
    async (pipelining) => {
      await database.rows(`CREATE TABLE levels (of_statement text);
      CREATE FUNCTION keep_level() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO levels VALUES (current_setting('transaction_isolation')); RETURN NULL; END $$;
      CREATE TRIGGER keep_level AFTER INSERT OR UPDATE ON pawl.idempotency_keys EXECUTE FUNCTION keep_level()`)
      const pool = isolated('serializable')
      const engine = createEngine({ pool, pipelines: [note], schema: database.schema, pipelining })
      expect(await engine.enqueue(note, request())).toMatchObject({ type: 'enqueued' })
      expect(await engine.execute(note, request())).toMatchObject({ type: 'completed' })
      expect(await database.rows('SELECT DISTINCT of_statement FROM levels')).toEqual([
        { of_statement: 'read committed' },
      ])
      await database.rows('DROP FUNCTION keep_level CASCADE; DROP TABLE levels')
      await engine.close()
    },
  )

  test.each(['serializable', 'repeatable\\ read', 'read\\ uncommitted'])(
    'such as %s, fresh keys run side by side without a retry',
    async (level) => {
      const pool = isolated(level)
      const provider = new Provider(inject('providerUrl'))
      const ride = createRideOf(provider)
      const engine = createEngine({ pool, pipelines: [ride], schema: database.schema })
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, () =>
          engine.execute(ride, { scope: 's', key: randomUUID(), input: { amount: 100 } }),
        ),
      )
      expect(new Set(outcomes.map(({ type }) => type))).toEqual(new Set(['completed']))
      await engine.close()
    },
  )

  test('a statement of ours changes the isolation of nothing else on its connection', async () => {
    const pool = isolated('serializable')
    const engine: Engine<Database> = createEngine({ pool, pipelines: [note], schema: database.schema })
    expect((await engine.execute(note, request())).type).toBe('completed')
    const { rows } = await pool.query('SHOW transaction_isolation')
    expect(rows).toEqual([{ transaction_isolation: 'serializable' }])
    const notices: unknown[] = []
    pool.on('connect', (client) => client.on('notice', (notice) => notices.push(notice.message)))
    expect((await engine.execute(note, request())).type).toBe('completed')
    expect(notices).toEqual([])
    await engine.close()
  })
})

describe('a role that a phase takes on', () => {
  test.each([
    ['in a local phase', false],
    ['in settle', true],
  ])('%s is reset before its recovery point is written', async (_, inSettle) => {
    const role = `reader_${database.schema}`
    await database.rows(`CREATE ROLE ${role}; GRANT USAGE ON SCHEMA ${database.businessSchema} TO ${role};
                         GRANT INSERT ON audit TO ${role}; GRANT ${role} TO CURRENT_USER`)
    const provider = new Provider(inject('providerUrl'))
    const body = async ({ tx }: { readonly tx: Transaction<Database> }) => {
      await sql.raw(`SET LOCAL ROLE ${role}`).execute(tx)
      await tx.insertInto('audit').values({ what: 'noted' }).execute()
    }
    const builder = pipeline<null>({ name: 'as-reader', version: 1 })
    const asReader = inSettle
      ? builder
          .foreign('noted', {
            call: ({ idempotencyKey }) => provider.charge(7, { idempotencyKey }),
            settle: body,
          })
          .finish(() => respond(200))
      : builder.local('noted', body).finish(() => respond(200))
    const engine = createEngine({ pool: database.pool(), pipelines: [asReader], schema: database.schema })
    expect(await engine.execute(asReader, request())).toMatchObject({ type: 'completed' })
    expect(await engine.execute(asReader, request())).toMatchObject({ type: 'completed' })
    expect(await database.rows('SELECT what FROM audit')).toEqual([{ what: 'noted' }, { what: 'noted' }])
    expect(await provider.requests()).toHaveLength(inSettle ? 2 : 0)
    await engine.close()
    await database.rows(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
  })

  test('is also reset if many requests find that out at the same time', async () => {
    const role = `burst_${database.schema}`
    await database.rows(`CREATE ROLE ${role}; GRANT USAGE ON SCHEMA ${database.businessSchema} TO ${role};
                         GRANT INSERT ON audit TO ${role}; GRANT ${role} TO CURRENT_USER`)
    const asReader = pipeline<number>({ name: 'burst', version: 1, maxAttempts: 1 })
      .local('noted', async ({ tx, input }) => {
        await sql.raw(`SET LOCAL ROLE ${role}`).execute(tx)
        await sql`SELECT pg_sleep(${input / 1_000})`.execute(tx)
      })
      .finish(() => respond(200))
    const engine = createEngine({ pool: database.pool(), pipelines: [asReader], schema: database.schema })
    const outcomes = await Promise.all(
      [0, 0, 0, 50, 100, 100].map((input) => engine.execute(asReader, { ...request(), input })),
    )
    expect(outcomes.map(({ type }) => type)).toEqual(Array.from({ length: 6 }, () => 'completed'))
    await engine.close()
    await database.rows(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
  })
})
