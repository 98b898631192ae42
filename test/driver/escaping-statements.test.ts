import { randomUUID } from 'node:crypto'
import { type EngineOptions, respond, retryLater, type Stage } from '@pawl/core'
import { sql, type Transaction } from 'kysely'
import pg from 'pg'
import { afterAll, beforeEach, describe, expect, inject, test } from 'vitest'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { Provider } from '../support/provider.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { expectWholePool } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { firstUnlessDeep } from '../support/amounts.js'

const database = await TestDatabase.create()
await createRideTables(database)
await database.rows('CREATE TABLE notes (text text)')
afterAll(() => database.drop())
beforeEach(async () => {
  await database.rows('TRUNCATE notes, rides, pawl.idempotency_keys, pawl.staged_jobs, pawl.effects CASCADE')
})

type Tx = Transaction<Database>
interface Context {
  readonly tx: Tx
  readonly stage: Stage
}
type Body = (context: Context) => Promise<void>

const note = (tx: Tx, text: string) => sql`INSERT INTO notes VALUES (${text})`.execute(tx)
const notes = async () =>
  (await database.rows<{ text: string }>('SELECT text FROM notes ORDER BY text')).map(({ text }) => text)

const request = () => ({ scope: 's', key: randomUUID(), input: null })

/** Like a client of `pg-native`, it cannot send statements together. */
class ClientWithoutPipelining extends pg.Client {
  static readonly Query = { prototype: {} }
}

type Options = Partial<EngineOptions<Database>>
const WAYS_TO_SEND: readonly { how: string; pool: pg.PoolConfig; engine: Options }[] = [
  { how: 'by default', pool: {}, engine: {} },
  { how: 'without pipelining', pool: {}, engine: { pipelining: false } },
  {
    how: 'with prepared statements and queries',
    pool: {},
    engine: { preparedStatements: true, preparedQueries: true },
  },
  { how: 'with a client that cannot send together', pool: { Client: ClientWithoutPipelining }, engine: {} },
  { how: "with pg's own pipeline mode", pool: { pipeline: true }, engine: {} },
]

const payloadThatIsRefused = { at: new Date() } as never
const divide = (tx: Tx) => sql`SELECT 1 / ${0}::integer`.execute(tx)

/** Bodies that fail, of which nothing may stay, whatever was still under way. */
const FAILING_BODIES: readonly [string, Body][] = [
  [
    'a member of Promise.all that is refused at once',
    async ({ tx, stage }) => {
      await Promise.all([note(tx, 'one'), note(tx, 'two'), stage('receipt', payloadThatIsRefused)])
    },
  ],
  [
    'a member of Promise.all that fails while others wait',
    async ({ tx }) => {
      await Promise.all([note(tx, 'one'), divide(tx), note(tx, 'two'), note(tx, 'three')])
    },
  ],
  [
    'queries that are not awaited before it throws',
    async ({ tx }) => {
      for (const text of ['one', 'two', 'three']) note(tx, text).catch(() => {})
      throw new Error('a bug')
    },
  ],
  [
    'a slow first query, and others that wait for it',
    async ({ tx }) => {
      const slow = sql`SELECT pg_sleep(${0.05}::float8)`.execute(tx)
      const others = ['one', 'two'].map((text) => note(tx, text))
      await Promise.all([slow, ...others, Promise.reject(new Error('a bug'))])
    },
  ],
  [
    'savepoints among parallel queries',
    async ({ tx, stage }) => {
      await sql`SAVEPOINT here`.execute(tx)
      await Promise.all([
        note(tx, 'one'),
        sql`ROLLBACK TO SAVEPOINT here`.execute(tx),
        note(tx, 'two'),
        stage('receipt', payloadThatIsRefused),
      ])
    },
  ],
  [
    'a text of several statements among others',
    async ({ tx }) => {
      await Promise.all([
        sql.raw(`INSERT INTO notes VALUES ('one'); INSERT INTO notes VALUES ('two')`).execute(tx),
        note(tx, 'three'),
        Promise.reject(new Error('a bug')),
      ])
    },
  ],
]

describe.each(firstUnlessDeep(2, WAYS_TO_SEND))('$how', ({ pool: poolOptions, engine: engineOptions }) => {
  const application_name = `escape_${randomUUID()}`
  const open = () => {
    const pool = database.pool({ max: 3, application_name, ...poolOptions })
    const engineOf = (pipelines: EngineOptions<Database>['pipelines']) =>
      createEngine({ pool, pipelines, schema: database.schema, ...engineOptions })
    return { pool, engineOf }
  }

  describe.each(FAILING_BODIES)('%s', (_, body) => {
    // Shows I15.
    test('in a local phase writes nothing in three attempts', async () => {
      const { pool, engineOf } = open()
      const failing = pipeline<null>({ name: 'failing', version: 1 })
        .local('noted', body)
        .finish(() => respond(200))
      const engine = engineOf([failing])
      const asked = request()
      for (let attempt = 0; attempt < 3; attempt++)
        expect(await engine.execute(failing, asked)).toMatchObject({
          type: 'retry_later',
          recoveryPoint: 'started',
        })
      await expectWholePool(pool, database, application_name)
      expect(await notes()).toEqual([])
      await engine.close()
    })

    test('in settle writes nothing, and the call is made once', async () => {
      const { pool, engineOf } = open()
      const provider = new Provider(inject('providerUrl'))
      const failing = pipeline<null>({ name: 'failing', version: 1 })
        .foreign('charged', {
          call: ({ idempotencyKey }) => provider.charge(7, { idempotencyKey }),
          settle: body,
        })
        .finish(() => respond(200))
      const engine = engineOf([failing])
      const asked = request()
      for (let attempt = 0; attempt < 3; attempt++)
        expect((await engine.execute(failing, asked)).type).toBe('retry_later')
      await expectWholePool(pool, database, application_name)
      expect(await notes()).toEqual([])
      expect(await provider.requests()).toHaveLength(1)
      await engine.close()
    })
  })

  test('in a transaction of engine.db, parallel queries are undone with the rest', async () => {
    const { pool, engineOf } = open()
    const engine = engineOf([])
    const transaction = engine.db
      .transaction()
      .execute((tx) =>
        Promise.all([
          note(tx, 'one'),
          note(tx, 'two'),
          Promise.reject(new Error('a bug')),
          note(tx, 'three'),
        ]),
      )
    await expect(transaction).rejects.toThrow('a bug')
    await expectWholePool(pool, database, application_name)
    expect(await notes()).toEqual([])
    await engine.close()
  })

  test('a transaction of engine.db takes no query after its end', async () => {
    const { engineOf } = open()
    const engine = engineOf([])
    const kept = await engine.db.transaction().execute(async (tx) => {
      await note(tx, 'inside')
      return tx
    })
    await expect(note(kept, 'late')).rejects.toThrow()
    expect(await notes()).toEqual(['inside'])
    await engine.close()
  })

  // Shows I15.
  test('queries that a phase does not await are in its transaction, or nowhere', async () => {
    const { pool, engineOf } = open()
    const late: Promise<unknown>[] = []
    const forgetful = pipeline<null>({ name: 'forgetful', version: 1 })
      .local('noted', async ({ tx }) => {
        await note(tx, 'one')
        late.push(note(tx, 'two'), note(tx, 'three'))
        late.push(new Promise((resolve) => setImmediate(resolve)).then(() => note(tx, 'four')))
        for (const one of late) one.catch(() => {})
      })
      .finish(() => respond(200))
    const engine = engineOf([forgetful])
    const done = engine.execute(forgetful, request())
    const settled = await done.then(() => Promise.allSettled(late))
    expect((await done).type).toBe('completed')
    await expectWholePool(pool, database, application_name)
    const told = ['two', 'three', 'four'].filter((__, at) => settled[at]?.status === 'fulfilled')
    expect(await notes()).toEqual(['one', ...told].toSorted())
    const [found] = await database.rows<{ transactions: number }>(
      'SELECT count(DISTINCT xmin::text)::int AS transactions FROM notes',
    )
    expect(found).toEqual({ transactions: 1 })
    await engine.close()
  })

  test('a text that ends the transaction halfway and then fails leaves nothing of the queries that wait behind it', async () => {
    const { pool, engineOf } = open()
    const ending = pipeline<null>({ name: 'ending', version: 1 })
      .local('noted', async ({ tx }) => {
        await note(tx, 'inside')
        await Promise.allSettled([
          sql.raw('/* x */ ROLLBACK; SELECT 1 / 0').execute(tx),
          note(tx, 'outside'),
          note(tx, 'outside, too'),
        ])
      })
      .finish(() => respond(200))
    const engine = engineOf([ending])
    expect(await engine.execute(ending, request())).toMatchObject({ type: 'stuck' })
    await expectWholePool(pool, database, application_name)
    expect(await notes()).toEqual([])
    await engine.close()
  })

  test.each([
    ['SELECT 1; COMMIT; BEGIN; SELECT 1 / 0'],
    ['SELECT 1; COMMIT; BEGIN; SAVEPOINT s; SELECT 1 / 0'],
    ['SELECT 1; COMMIT AND CHAIN; SELECT 1 / 0'],
    ['/* x */ ROLLBACK'],
    ['/* x */ ROLLBACK AND CHAIN'],
  ])('a phase that sends %s runs once, and is stuck', async (text) => {
    const { engineOf } = open()
    let runs = 0
    const ending = pipeline<null>({ name: 'ending', version: 1 })
      .local('noted', async ({ tx }) => {
        runs++
        await note(tx, 'inside')
        await sql
          .raw(text)
          .execute(tx)
          .catch(() => {})
        if (text.includes('SAVEPOINT')) await sql`ROLLBACK TO s`.execute(tx).catch(() => {})
        throw new Error('after all')
      })
      .finish(() => respond(200))
    const engine = engineOf([ending])
    const asked = request()
    const stuck = { type: 'stuck', reason: 'transaction_ended' }
    expect(await engine.execute(ending, asked)).toMatchObject(stuck)
    expect(await engine.execute(ending, asked)).toMatchObject(stuck)
    expect(runs).toBe(1)
    await engine.close()
  })

  test('a phase that sends a COMMIT in disguise and then asks for a retry runs once, and is stuck', async () => {
    const { engineOf } = open()
    const ending = pipeline<null>({ name: 'ending', version: 1 })
      .local('noted', async ({ tx }) => {
        await note(tx, 'inside')
        await sql`/* x */ COMMIT`.execute(tx).catch(() => {})
        return retryLater()
      })
      .finish(() => respond(200))
    const engine = engineOf([ending])
    const asked = request()
    for (let attempt = 0; attempt < 2; attempt++)
      expect(await engine.execute(ending, asked)).toMatchObject({
        type: 'stuck',
        reason: 'transaction_ended',
      })
    expect(await notes()).toEqual(['inside'])
    await engine.close()
  })

  test('a savepoint may be called chain, and a row may be about one', async () => {
    const { engineOf } = open()
    const chained = pipeline<null>({ name: 'chained', version: 1 })
      .local('noted', async ({ tx }) => {
        await sql`SAVEPOINT chain`.execute(tx)
        await note(tx, 'undone')
        await sql`ROLLBACK TO SAVEPOINT chain`.execute(tx)
        await sql.raw(`ROLLBACK TO chain; INSERT INTO notes VALUES ('rollback and chain')`).execute(tx)
      })
      .finish(() => respond(200))
    const engine = engineOf([chained])
    expect(await engine.execute(chained, request())).toMatchObject({ type: 'completed' })
    expect(await notes()).toEqual(['rollback and chain'])
    await engine.close()
  })

  test('a value that cannot be sent does not spoil the same query for other values', async () => {
    const { engineOf } = open()
    const unsendable = {
      toPostgres: () => {
        throw new Error('not today')
      },
    }
    const mixed = pipeline<null>({ name: 'mixed', version: 1 })
      .local('noted', async ({ tx }) => {
        for (let n = 0; n < 12; n++)
          await sql`INSERT INTO notes VALUES (${n % 3 === 0 ? unsendable : 'x'})`.execute(tx).catch(() => {})
      })
      .finish(() => respond(200))
    const engine = engineOf([mixed])
    expect(await engine.execute(mixed, request())).toMatchObject({ type: 'completed' })
    expect(await notes()).toHaveLength(8)
    await engine.close()
  })

  test('queries that wait for a BEGIN that fails are not executed', async () => {
    const proxy = await PostgresProxy.start(database.url)
    const proxied = database.pool({ max: 1, ...poolOptions, connectionString: proxy.url })
    const noted = pipeline<null>({ name: 'noted', version: 1, isolation: 'repeatable read' })
      .local('noted', async ({ tx }) => {
        await Promise.allSettled(['one', 'two', 'three'].map((text) => note(tx, text)))
      })
      .finish(() => respond(200))
    const engine = createEngine({
      pool: proxied,
      pipelines: [noted],
      schema: database.schema,
      ...engineOptions,
    })
    const garbled = proxy.garble('BEGIN ISOLATION LEVEL REPEATABLE', 'BEGUN ISOLATION LEVEL REPEATABLE')
    expect(await engine.execute(noted, request())).toMatchObject({ type: 'retry_later' })
    await garbled
    expect(await notes()).toEqual([])
    await engine.close()
    await proxy.close()
  })
})
