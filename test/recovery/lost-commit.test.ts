import { randomUUID } from 'node:crypto'
import { type Outcome, respond, subscribe } from '@pawl/core'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, createRideTables, pipeline } from '../support/rides.js'
import { expectWholePool, hear, waitingForLock } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { expectOneWholeRide } from '../support/whole-ride.js'

let database: TestDatabase
let provider: Provider
let proxy: PostgresProxy
let application: string

beforeEach(async () => {
  database = await TestDatabase.create()
  await createRideTables(database)
  provider = new Provider(inject('providerUrl'))
  proxy = await PostgresProxy.start(database.url)
  application = `through_proxy_${randomUUID()}`
})
afterEach(async () => {
  await database.drop()
  await proxy.close()
})

function start(pipelining: boolean) {
  // One connection is enough, even to find out what became of another.
  const pool = database.pool({ connectionString: proxy.url, application_name: application, max: 1 })
  const createRide = createRideOf(provider)
  const engine = createEngine({ pool, pipelines: [createRide], schema: database.schema, pipelining })
  const request = { scope: 'rider', key: randomUUID(), input: { amount: 700 } }
  return { pool, engine, execute: (): Promise<Outcome> => engine.execute(createRide, request) }
}

const WAYS = [
  { how: 'with pipelining', pipelining: true },
  { how: 'one statement at a time', pipelining: false },
] as const

const COMMITS = [
  { phase: 'ride_created', commitsBefore: 0 },
  { phase: 'charge_created', commitsBefore: 1 },
  { phase: 'finished', commitsBefore: 2 },
] as const

const FAULTS = [
  { fault: 'answer_lost', committed: true },
  { fault: 'commit_lost', committed: false },
] as const

describe.each(COMMITS)('the COMMIT of $phase', ({ phase, commitsBefore }) => {
  // Shows I2, I4.
  test.each(FAULTS.flatMap((fault) => WAYS.map((way) => ({ ...fault, ...way }))))(
    'with $fault is neither lost nor doubled within its execution, $how',
    async ({ fault, committed, pipelining }) => {
      const { pool, engine, execute } = start(pipelining)
      const settled = hear('pawl:commit_settled')
      const struck = proxy.armCommit(fault, commitsBefore)
      const outcome = await execute()
      await struck
      expect(outcome).toMatchObject({ type: 'completed', response: { status: 201 } })
      expect(settled).toMatchObject([{ phase, committed }])
      await expectOneWholeRide(database, provider)
      expect(await provider.requests()).toHaveLength(1)
      expect(await execute()).toMatchObject({ type: 'replayed' })
      await expectWholePool(pool, database, application)
      await engine.close()
    },
  )

  test('that lands late has its row locked, so that the statement that raises the fence waits, and finds it', async () => {
    const { pool, engine, execute } = start(false)
    const settled = hear('pawl:commit_settled')
    const struck = proxy.armCommit('commit_late', commitsBefore)
    const running = execute()
    await struck
    await waitingForLock(database, application)
    // A plain read would have been misled: the phase is not there yet.
    const [early] = await database.rows<{ recovery_point: string }>(
      'SELECT recovery_point FROM pawl.idempotency_keys',
    )
    expect(early?.recovery_point).not.toBe(phase)
    proxy.deliverCommit()
    expect(await running).toMatchObject({ type: 'completed', response: { status: 201 } })
    expect(settled).toMatchObject([{ phase, committed: true }])
    await expectOneWholeRide(database, provider)
    expect(await provider.requests()).toHaveLength(1)
    expect({ out: pool.totalCount - pool.idleCount, waiting: pool.waitingCount }).toEqual({
      out: 0,
      waiting: 0,
    })
    await engine.close()
  })

  test('that lands late together with its advance finds the fence raised, and commits nothing', async () => {
    const { engine, execute } = start(true)
    const settled = hear('pawl:commit_settled')
    const struck = proxy.armCommit('commit_late', commitsBefore)
    // The next try waits for rows that its other statements have locked.
    const delivered = new Promise<void>((resolve) => {
      const stop = subscribe('pawl:commit_settled', () => {
        stop()
        proxy.deliverCommit()
        resolve()
      })
    })
    const running = execute()
    await Promise.all([struck, delivered])
    expect(await running).toMatchObject({ type: 'completed', response: { status: 201 } })
    expect(settled).toMatchObject([{ phase, committed: false }])
    await proxy.answered
    await expectOneWholeRide(database, provider)
    expect(await provider.requests()).toHaveLength(1)
    await engine.close()
  })
})

test('if a COMMIT whose answer was lost has landed, the key is leased for as long as the next phase takes', async () => {
  const pool = database.pool({ connectionString: proxy.url, max: 1 })
  const LONG_MS = 600_000
  let leftMs = 0
  const slow = pipeline<null>({ name: 'slow', version: 1, leaseMs: 5_000 })
    .local('noted', async ({ tx }) => void (await tx.insertInto('audit').values({ what: 'noted' }).execute()))
    .foreign('charged', {
      leaseMs: LONG_MS,
      call: async () => {
        const [left] = await database.rows<{ ms: number }>(
          `SELECT extract(epoch FROM lease_until - clock_timestamp())::float * 1000 AS ms FROM pawl.idempotency_keys`,
        )
        leftMs = left?.ms ?? 0
        return {}
      },
    })
    .finish(() => respond(201))
  const engine = createEngine({ pool, pipelines: [slow], schema: database.schema })
  const struck = proxy.armCommit('answer_lost')
  expect(await engine.execute(slow, { scope: 's', key: 'k', input: null })).toMatchObject({
    type: 'completed',
  })
  await struck
  expect(leftMs).toBeGreaterThan(LONG_MS / 2)
  await engine.close()
})

test('if a client merely rejects its COMMIT, we find out what was committed, and do not use the client again', async () => {
  let commits = 0
  class Rejecting extends pg.Client {
    /** As with `pg-native`, we know no more about it than that a query returns a promise. */
    static readonly Query = { prototype: {} }
    override query = (async (sent: { readonly text?: string }) => {
      const result = await (pg.Client.prototype.query as (sent: unknown) => unknown).call(this, sent)
      if (sent.text !== 'COMMIT' || ++commits > 1) return result
      throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
    }) as never
  }
  const pool = database.pool({ max: 1, Client: Rejecting })
  const removed: unknown[] = []
  pool.on('remove', (client) => removed.push(client))
  const settled = hear('pawl:commit_settled')
  const createRide = createRideOf(provider)
  const engine = createEngine({ pool, pipelines: [createRide], schema: database.schema })
  const request = { scope: 'rider', key: randomUUID(), input: { amount: 700 } }
  expect(await engine.execute(createRide, request)).toMatchObject({ type: 'completed' })
  expect(settled).toMatchObject([{ phase: 'ride_created', committed: true }])
  expect(await database.rows('SELECT FROM rides')).toHaveLength(1)
  expect(removed).toHaveLength(1)
  await engine.close()
})

test.each(WAYS)(
  'a statement that raised the fence, and whose answer was lost, recognises itself, $how',
  async ({ pipelining }) => {
    const { engine, execute } = start(pipelining)
    const struck = proxy
      .armCommit('answer_lost', 1)
      .then(() =>
        proxy.armStatement('SET fence = k.fence OPERATOR(pg_catalog.+) 1, holder = $5', 'answer_lost'),
      )
    expect(await execute()).toMatchObject({ type: 'completed' })
    await struck
    await expectOneWholeRide(database, provider)
    expect(await provider.requests()).toHaveLength(1)
    await engine.close()
  },
)
