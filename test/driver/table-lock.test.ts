import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { respond } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { sql } from 'kysely'
import type pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { firstUnlessDeep } from '../support/amounts.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { expectWholePool, waitingForLock } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const note = pipeline<null>({ name: 'note', version: 1 })
  .local('noted', async ({ tx }) => void (await tx.insertInto('audit').values({ what: 'noted' }).execute()))
  .finish(() => respond(200))
const request = () => ({ scope: 's', key: randomUUID(), input: null })

const backends = async (applicationName: string): Promise<number> => {
  const [row] = await database.rows<{ n: number }>(
    'SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = $1',
    [applicationName],
  )
  return row?.n ?? 0
}

/** Locks the keys' table as ALTER TABLE does, for as long as `work` takes. */
async function whileLocked<T>(work: (blocker: pg.PoolClient) => Promise<T>): Promise<T> {
  const blocker = await database.admin.connect()
  try {
    await blocker.query('BEGIN')
    await blocker.query(`LOCK TABLE ${database.schema}.idempotency_keys`)
    return await work(blocker)
  } finally {
    await blocker.query('ROLLBACK')
    blocker.release()
  }
}

describe('a lock on the whole table', () => {
  const LOCKED_S = 8
  const MAX = 3

  test.each(
    firstUnlessDeep(1, [
      ['by default', {}],
      ['without pipelining', { pipelining: false }],
    ] as const),
  )('%s makes requests come back later, and backends stay within the pool', async (_, options) => {
    const application_name = `locked_${randomUUID()}`
    const pool = database.pool({ max: MAX, application_name })
    const engine = createEngine({
      pool,
      pipelines: [note],
      schema: database.schema,
      acquireTimeoutMs: 1_000,
      ...options,
    })
    const known = request()
    expect((await engine.execute(note, known)).type).toBe('completed')
    const unlocked = new AbortController()
    let most = 0
    const told = new Set<string>()
    const client = async (asked: () => ReturnType<typeof request>) => {
      while (!unlocked.signal.aborted) {
        told.add((await engine.execute(note, asked())).type)
        most = Math.max(most, await backends(application_name))
      }
    }
    await whileLocked(async (blocker) => {
      // New requests and replays both wait for the table.
      const clients = [request, request, request, request, () => known, () => known].map(client)
      await blocker.query(`SELECT pg_sleep(${LOCKED_S})`)
      unlocked.abort()
      await blocker.query('ROLLBACK')
      await Promise.all(clients)
    })
    expect(most).toBeLessThanOrEqual(MAX + 1)
    // Some ran when the lock was gone, some were kept waiting by it, and some found no free connection.
    for (const type of told) expect(['completed', 'replayed', 'in_flight', 'unavailable']).toContain(type)
    expect(told).toContain('in_flight')
    expect((await engine.execute(note, request())).type).toBe('completed')
    await expectWholePool(pool, database, application_name)
    await engine.close()
  })
})

describe('a statement that we give up on', () => {
  test('is cancelled at the server, so that no backend is left behind', async () => {
    const application_name = `given_up_${randomUUID()}`
    const pool = database.pool({ max: 1, application_name, query_timeout: 300 })
    const engine = createEngine({ pool, pipelines: [note], schema: database.schema })
    await expect(sql`SELECT pg_sleep(600)`.execute(engine.db)).rejects.toMatchObject({
      code: 'PAWL_CONNECTION_LOST',
    })
    await pool.end()
    await database.backendsGone(application_name)
    await engine.close()
  })

  test('is cut off even if the server does not take the cancel request either', async () => {
    const proxy = await PostgresProxy.start(database.url)
    const pool = database.pool({ max: 1, connectionString: proxy.url, query_timeout: 300 })
    const engine = createEngine({ pool, pipelines: [note], schema: database.schema })
    expect((await engine.execute(note, request())).type).toBe('completed')
    const removed = once(pool, 'remove')
    proxy.stall()
    await expect(sql`SELECT 1`.execute(engine.db)).rejects.toMatchObject({ code: 'PAWL_CONNECTION_LOST' })
    await removed
    expect(proxy.cancelRequests).toBe(1)
    proxy.flow()
    expect((await engine.execute(note, request())).type).toBe('completed')
    expect([pool.totalCount, pool.idleCount, pool.waitingCount]).toEqual([1, 1, 0])
    await engine.close()
    await proxy.close()
  })

  test.each(['reserve/insert_key', 'noted/commit'])(
    'is not cancelled if it commits, as %s does, since it may be waiting for a synchronous standby',
    async (where) => {
      const proxy = await PostgresProxy.start(database.url)
      const pool = database.pool({ max: 1, connectionString: proxy.url, query_timeout: 300 })
      let stalled = false
      const engine = createProbedEngine<Database>(
        { pool, pipelines: [note], schema: database.schema },
        ({ phase, step, when }) => {
          if (stalled || `${phase}/${step}` !== where || when !== 'before') return
          stalled = true
          proxy.stall()
        },
      )
      pool.once('remove', () => proxy.flow())
      expect((await engine.execute(note, request())).type).toBe('completed')
      expect(stalled).toBe(true)
      expect(proxy.cancelRequests).toBe(0)
      await engine.close()
      await proxy.close()
    },
  )

  test('because nobody awaits it is cancelled as well, and its connection is given to nobody else', async () => {
    const application_name = `unawaited_${randomUUID()}`
    const pool = database.pool({ max: 1, application_name })
    const engine = createEngine({ pool, pipelines: [note], schema: database.schema })
    let unawaited: Promise<unknown> | undefined
    await whileLocked(async () => {
      await engine.db.connection().execute(async (connection) => {
        unawaited = sql.raw(`SELECT FROM ${database.schema}.idempotency_keys`).execute(connection)
        unawaited.catch(() => {})
        await waitingForLock(database, application_name)
      })
      await expect(unawaited).rejects.toMatchObject({ code: 'PAWL_CONNECTION_LOST' })
      await database.backendsGone(application_name)
    })
    expect((await engine.execute(note, request())).type).toBe('completed')
    await engine.close()
  })
})

test('an event loop that stood still does not cost a connection whose answer has arrived', async () => {
  let runs = 0
  const blocked = pipeline<null>({ name: 'blocked', version: 1, statementTimeoutMs: 100 })
    .local('noted', async ({ tx }) => {
      runs++
      const sent = sql`SELECT ${1}::integer`.execute(tx)
      await new Promise(setImmediate)
      const until = performance.now() + 2_400
      while (performance.now() < until);
      await sent
    })
    .finish(() => respond(200))
  const engine = createEngine({ pool: database.pool(), pipelines: [blocked], schema: database.schema })
  expect(await engine.execute(blocked, request())).toMatchObject({ type: 'completed' })
  expect(runs).toBe(1)
  await engine.close()
})

describe('parallel queries of one phase', () => {
  test('each have the whole statement time-out, however long they wait for the others', async () => {
    const slow = pipeline<null>({ name: 'slow', version: 1, statementTimeoutMs: 1_000 })
      .local('slept', async ({ tx }) => {
        await Promise.all(Array.from({ length: 6 }, () => sql`SELECT pg_sleep(${0.7})`.execute(tx)))
      })
      .finish(() => respond(200))
    const engine = createEngine({ pool: database.pool(), pipelines: [slow], schema: database.schema })
    expect(await engine.execute(slow, request())).toMatchObject({ type: 'completed' })
    await engine.close()
  })

  test('fail the phase if the protocol cannot carry one of them, and that counts as an attempt', async () => {
    const tooMany = pipeline<null>({ name: 'too-many', version: 1, maxAttempts: 2 })
      .local('noted', async ({ tx }) => {
        const values = Array.from({ length: 70_000 }, (_, n) => sql`${n}`)
        await sql`SELECT 1 WHERE 0 IN (${sql.join(values)})`.execute(tx)
      })
      .finish(() => respond(200))
    const pool = database.pool({ max: 1 })
    const engine = createEngine({ pool, pipelines: [tooMany], schema: database.schema })
    const asked = request()
    expect(await engine.execute(tooMany, asked)).toMatchObject({
      type: 'retry_later',
      reason: 'unknown_error',
      error: { code: '08P01' },
    })
    expect(await engine.execute(tooMany, asked)).toMatchObject({
      type: 'stuck',
      reason: 'attempts_exhausted',
    })
    await engine.close()
  })
})
