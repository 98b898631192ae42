import { randomUUID } from 'node:crypto'
import { type EngineOptions, respond } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { sql } from 'kysely'
import pg from 'pg'
import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { SessionPool } from '../../packages/core/src/driver/session-pool.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { Spread } from '../../packages/core/src/driver/spread.js'

const database = await TestDatabase.create()
await createRideTables(database)
await database.rows('CREATE SEQUENCE numbers')
afterAll(() => database.drop())
beforeEach(() => database.rows('TRUNCATE audit'))

const notes = async () =>
  (await database.rows<{ what: string }>('SELECT what FROM audit ORDER BY what')).map(({ what }) => what)
const request = () => ({ scope: 's', key: randomUUID(), input: null })

/** Like a client of `pg-native`, it cannot send statements together, and reports an error before its answer has ended. */
class ClientWithoutPipelining extends pg.Client {
  static readonly Query = { prototype: {} }
}

describe.each<{ how: string; options: Partial<EngineOptions<Database>>; client?: typeof pg.Client }>([
  { how: 'by default', options: {} },
  { how: 'without pipelining', options: { pipelining: false } },
  { how: 'with a client that cannot send together', options: {}, client: ClientWithoutPipelining },
])('$how', ({ options, client: Client = pg.Client }) => {
  const engineOf = (pool: pg.Pool, pipelines: EngineOptions<Database>['pipelines']) =>
    createEngine({ pool, pipelines, schema: database.schema, ...options })

  test.each(['committed', 'rolled back'] as const)(
    'a transaction that is %s writes nothing into the next one on its connection',
    async (end) => {
      const sessions = new SessionPool(database.pool({ max: 1, Client }), {
        acquireTimeoutMs: 10_000,
        statementDeadlineMs: 10_000,
        lockTimeoutMs: 1_000,
        pipelining: options.pipelining ?? true,
        spread: new Spread(),
        learn: () => Promise.resolve(),
        preparedStatements: false,
        probe: null,
      })
      await sessions.with('test', async (session) => {
        const begin = { alone: { name: 'begin', text: 'BEGIN' }, together: [] }
        const insert = 'INSERT INTO audit (what) VALUES ($1)'
        const first = session.begin(begin)
        await first.query(insert, ['first'])
        await (end === 'committed' ? first.commit([]) : first.rollBack())
        const second = session.begin(begin)
        await second.query(insert, ['second'])
        // The server would take it for a statement of the second transaction.
        await expect(first.query(insert, ['late'])).rejects.toMatchObject({ code: 'PAWL_TRANSACTION_CLOSED' })
        await second.commit([])
      })
      expect(await notes()).toEqual(end === 'committed' ? ['first', 'second'] : ['second'])
    },
  )

  test("a connection of engine.db that was given back writes nothing into the next borrower's transaction", async () => {
    const engine = engineOf(database.pool({ max: 1, Client }), [])
    const kept = await engine.db.connection().execute(async (connection) => connection)
    const note = (on: typeof kept, what: string) => on.insertInto('audit').values({ what }).execute()
    await engine.db.transaction().execute(async (tx) => {
      await note(tx, 'theirs')
      await expect(note(kept, 'late')).rejects.toMatchObject({ code: 'PAWL_TRANSACTION_CLOSED' })
    })
    expect(await notes()).toEqual(['theirs'])
    await engine.close()
  })

  test('a phase that failed before its first query does not end the connection of the next borrower', async () => {
    const unsent = pipeline<null>({ name: 'unsent', version: 1, idleTimeoutMs: 100 })
      .local('nothing', () => Promise.reject(new Error('a bug')))
      .finish(() => respond(200))
    const pool = database.pool({ max: 1, Client })
    const engine = engineOf(pool, [unsent])
    expect(await engine.execute(unsent, request())).toMatchObject({ error: { message: 'a bug' } })
    // Longer than the phase's idle time-out, which the server knows nothing about.
    expect((await pool.query('SELECT pg_sleep(0.3)')).rowCount).toBe(1)
    expect(pool.totalCount).toBe(1)
    await engine.close()
  })

  test('what a failed phase has not sent before its ROLLBACK is never executed', async () => {
    const counting = pipeline<null>({ name: 'counting', version: 1 })
      .local('counted', async ({ tx }) => {
        const all = [
          sql`SELECT pg_sleep(${0.05}::float8)`.execute(tx),
          // A ROLLBACK does not undo this.
          sql`SELECT nextval('numbers')`.execute(tx),
        ]
        await Promise.all([...all, Promise.reject(new Error('a bug'))])
      })
      .finish(() => respond(200))
    const engine = engineOf(database.pool({ Client }), [counting])
    expect(await engine.execute(counting, request())).toMatchObject({ type: 'retry_later' })
    await engine.close()
    expect(await database.rows('SELECT is_called FROM numbers')).toEqual([{ is_called: false }])
  })

  test('no ROLLBACK is sent where there is nothing to undo', async () => {
    await database.rows(
      `CREATE TABLE IF NOT EXISTS once (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED); TRUNCATE once`,
    )
    const twice = pipeline<null>({ name: 'twice', version: 1 })
      .local('inserted', async ({ tx }) => {
        await sql`INSERT INTO once VALUES (${1}), (${1})`.execute(tx)
      })
      .finish(() => respond(200))
    const unsent = pipeline<null>({ name: 'unsent', version: 1 })
      .local('nothing', () => Promise.reject(new Error('a bug')))
      .finish(() => respond(200))
    const pool = database.pool({ Client })
    const notices: unknown[] = []
    pool.on('connect', (client) => client.on('notice', ({ message }) => notices.push(message)))
    const steps: string[] = []
    const engine = createProbedEngine<Database>(
      { pool, pipelines: [twice, unsent], schema: database.schema, ...options },
      ({ phase, step, when }) => void (when === 'before' && steps.push(`${phase}/${step}`)),
    )
    // When its COMMIT fails, the server has already undone it; the other has not begun.
    expect(await engine.execute(twice, request())).toMatchObject({ error: { code: '23505' } })
    expect(await engine.execute(unsent, request())).toMatchObject({ error: { message: 'a bug' } })
    expect(notices).toEqual([])
    expect(steps).not.toContain('nothing/rollback')
    await engine.close()
  })
})
