import { randomUUID } from 'node:crypto'
import { respond, subscribe } from '@pawl/core'
import { sql } from 'kysely'
import pg from 'pg'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let provider: Provider

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
})
afterEach(() => database.drop())

async function runRide(pool: pg.Pool) {
  const createRide = createRideOf(provider)
  const engine = createEngine({ pool, pipelines: [createRide], schema: database.schema })
  const request = { scope: 'rider', key: randomUUID(), input: { amount: 5 } }
  const first = await engine.execute(createRide, request)
  const second = await engine.execute(createRide, request)
  const view = await engine.inspect('rider', request.key)
  await engine.close()
  return { first: first.type, second: second.type, fence: view?.fence, charges: await provider.ledger() }
}

/** The type of ids, which the ride itself reads and needs as they are. */
const UUID_OID = 2950

const FINE = { first: 'completed', second: 'replayed', fence: 1, charges: [{ amount: 5 }] }

test.each(['repeatable read', 'serializable'])(
  'a database whose default isolation is %s makes no difference',
  async (level) => {
    const options = `-c search_path=${database.businessSchema} -c default_transaction_isolation=${level.replace(' ', '\\ ')}`
    expect(await runRide(database.pool({ options }))).toMatchObject(FINE)
  },
)

test("the application's type parsers make no difference", async () => {
  // A pool's parsers apply to everything that global ones do, and do not disturb other tests.
  const types = { getTypeParser: (oid: number) => (oid === UUID_OID ? String : () => 'parsed') }
  expect(await runRide(database.pool({ types }))).toMatchObject(FINE)
})

test('a server that ends a connection as it becomes ready does not end the process', async () => {
  const proxy = await PostgresProxy.start(database.url)
  proxy.endNewConnections()
  const uncaught: unknown[] = []
  const theirs = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException')
  process.on('uncaughtException', (error) => uncaught.push(error))
  const createRide = createRideOf(provider)
  const pool = database.pool({ connectionString: proxy.url })
  const engine = createEngine({ pool, pipelines: [createRide], schema: database.schema })
  const request = { scope: 'rider', key: randomUUID(), input: { amount: 5 } }
  expect(await engine.execute(createRide, request)).toMatchObject({ type: 'unavailable' })
  await engine.close()
  await proxy.close()
  process.removeAllListeners('uncaughtException')
  for (const listener of theirs) process.on('uncaughtException', listener)
  expect(uncaught).toEqual([])
})

test('an idle connection that is killed does not end the process, even if nobody listens to the pool', async () => {
  const name = `idle_${randomUUID().slice(0, 8)}`
  const options = `-c search_path=${database.businessSchema}`
  const pool = new pg.Pool({ connectionString: database.url, options, application_name: name })
  const createRide = createRideOf(provider)
  const engine = createEngine({ pool, pipelines: [createRide], schema: database.schema })
  const heard = new Promise<string>((resolve) => {
    const stop = subscribe('pawl:warning', ({ message }) => {
      stop()
      resolve(message)
    })
  })
  await engine.execute(createRide, { scope: 'rider', key: randomUUID(), input: { amount: 5 } })
  await database.rows('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', [
    name,
  ])
  expect(await heard).toBe('an idle connection broke')
  expect(
    await engine.execute(createRide, { scope: 'rider', key: randomUUID(), input: { amount: 5 } }),
  ).toMatchObject({ type: 'completed' })
  await engine.close()
  await pool.end()
})

test('a transaction that was left open is not handed to the next borrower of its connection', async () => {
  const pool = database.pool({ max: 1 })
  const createRide = createRideOf(provider)
  const engine = createEngine({ pool, pipelines: [createRide], schema: database.schema })
  let stream: { readonly destroyed: boolean } | undefined
  pool.once('acquire', (client) => {
    stream = (client as unknown as { connection: { stream: { destroyed: boolean } } }).connection.stream
  })
  await engine.db.connection().execute(async (connection) => {
    await sql`BEGIN`.execute(connection)
    await connection.insertInto('audit').values({ what: 'left open' }).execute()
  })
  // It is cut off, because ending it politely would wait for a server that may be dead.
  expect(stream?.destroyed).toBe(true)
  // Others use the pool, too, and do not check what they get.
  expect((await pool.query('SELECT what FROM audit')).rows).toEqual([])
  const outcome = await engine.execute(createRide, {
    scope: 'rider',
    key: randomUUID(),
    input: { amount: 5 },
  })
  expect(outcome).toMatchObject({ type: 'completed' })
  expect(await database.rows('SELECT what FROM audit')).toEqual([])
  await engine.close()
})

test("the pool's query_timeout leaves no statement behind on a connection that is given back", async () => {
  const name = `timeout_${randomUUID().slice(0, 8)}`
  const pool = database.pool({ query_timeout: 200, application_name: name })
  const slow = pipeline({ name: 'slow', version: 1, transactionRetries: 0 })
    .local('slept', async ({ tx }) => {
      await sql`SELECT pg_sleep(20)`.execute(tx)
    })
    .finish(() => respond(204))
  const engine = createEngine({ pool, pipelines: [slow], schema: database.schema })
  const outcome = await engine.execute(slow, { scope: 'rider', key: randomUUID(), input: null })
  expect(outcome).toMatchObject({ type: 'retry_later', error: { code: 'PAWL_CONNECTION_LOST' } })
  const slept = `SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND query LIKE '%pg_sleep%'`
  const [connection] = await database.rows<{ pid: number }>(slept, [name])
  const { rows } = await pool.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  expect(rows[0]?.pid).not.toBe(connection?.pid)
  await database.rows('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', [
    name,
  ])
  await engine.close()
})

test('a tracer whose query returns a promise, and rejects it, fails that query and nothing else', async () => {
  let fails = true
  class TracedClient extends pg.Client {
    override query = ((...sent: unknown[]): unknown => {
      const [{ text }] = sent as [{ text?: string }]
      if (text?.includes('SELECT 1 /* traced */') === true && fails) {
        fails = false
        return Promise.reject(new Error('no span'))
      }
      return (pg.Client.prototype.query as (...sent: unknown[]) => unknown).apply(this, sent)
    }) as never
  }
  const traced = pipeline({ name: 'traced', version: 1 })
    .local('one', async ({ tx }) => {
      await sql`SELECT ${1}::integer`.execute(tx)
      await sql`SELECT 1 /* traced */`.execute(tx)
    })
    .finish(() => respond(204))
  const pool = database.pool({ max: 1, Client: TracedClient })
  const engine = createEngine({ pool, pipelines: [traced], schema: database.schema })
  const request = { scope: 'rider', key: randomUUID(), input: null }
  expect(await engine.execute(traced, request)).toMatchObject({
    type: 'retry_later',
    error: { message: 'no span' },
  })
  expect(await engine.execute(traced, request)).toMatchObject({ type: 'completed' })
  await engine.close()
})
