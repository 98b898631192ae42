import { startPostgres } from '@pawl/dev-postgres'
import { expect, onTestFinished, test } from 'vitest'
import { listen, type Received, send } from '../support/http-client.js'
import { rideApp, surroundings } from '../support/ride-app.js'
import { createEngine } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { expectOneWholeRide } from '../support/whole-ride.js'

const body = { amount: 20 }

function expectUnavailable({ status, headers, body: bytes }: Received): void {
  expect(status).toBe(503)
  expect(headers['retry-after']).toBe('1')
  expect(headers['content-type']).toBe('application/problem+json')
  expect(JSON.parse(bytes.toString())).toMatchObject({ code: 'store_unavailable' })
}

test('while the store is away nothing runs, and once it is back the same key works', async () => {
  // The test has its own server, because the one that other tests use must not go away.
  const postgres = await startPostgres()
  onTestFinished(() => postgres.stop())
  const beside = await surroundings(postgres.url)
  const { database, provider } = beside
  const { app, log } = await rideApp({ beside })
  const url = await listen(app)
  const earlier = await send(url, { body, headers: { 'idempotency-key': 'k0' } })
  expect(earlier.status).toBe(201)
  const started = hear('pawl:phase_started')

  await postgres.kill()
  // The first may find a connection that broke; the second finds no connection.
  for (let attempt = 0; attempt < 2; attempt++) expectUnavailable(await send(url, { body }))
  // A stored response cannot be replayed either.
  expectUnavailable(await send(url, { body, headers: { 'idempotency-key': 'k0' } }))
  expect(started).toEqual([])
  expect(await provider.requests()).toHaveLength(1)
  expect(log).toContainEqual(
    expect.objectContaining({ level: 50, msg: 'the idempotency store is not available' }),
  )

  await postgres.restart()
  expect((await send(url, { body })).status).toBe(201)
  const replay = await send(url, { body, headers: { 'idempotency-key': 'k0' } })
  expect(replay.headers['idempotency-replayed']).toBe('true')
  expect(replay.body).toEqual(earlier.body)
  expect(await provider.ledger()).toHaveLength(2)
  expect(await database.rows('SELECT key FROM pawl.idempotency_keys ORDER BY key')).toHaveLength(2)
})

test('if the pool is exhausted, a request is told within the bound to come back, and works then', async () => {
  const beside = await surroundings()
  const { database, provider } = beside
  const pool = database.pool({ max: 1 })
  const { app } = await rideApp({ beside, engine: { pool, acquireTimeoutMs: 50 } })
  const url = await listen(app)
  const started = hear('pawl:phase_started')
  const only = await pool.connect()
  // The answer came while the connection was still taken.
  for (const refused of await Promise.all([send(url, { body }), send(url, { body })]))
    expectUnavailable(refused)
  expect(started).toEqual([])
  expect(await database.rows('SELECT key FROM pawl.idempotency_keys')).toEqual([])
  only.release()
  expect((await send(url, { body })).status).toBe(201)
  await expectOneWholeRide(database, provider)
})

test('if the tables are missing, the client learns nothing of it, and the log says what to do', async () => {
  const { app, log, provider } = await rideApp({
    engineOf: (options) => createEngine({ ...options, schema: 'nowhere' }),
  })
  const refused = await send(await listen(app), { body })
  expect(refused.status).toBe(500)
  expect(refused.headers['retry-after']).toBeUndefined()
  expect(JSON.parse(refused.body.toString())).toMatchObject({ code: 'internal_error' })
  expect(refused.body.toString()).not.toContain('nowhere')
  const err = expect.objectContaining({ code: 'PAWL_NOT_MIGRATED' }) as unknown
  expect(log).toContainEqual(expect.objectContaining({ level: 50, err }))
  expect(await provider.requests()).toEqual([])
})
