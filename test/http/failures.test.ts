import { respond, retryLater } from '@pawl/core'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { audit, keyRows, send } from '../support/http-requests.js'
import { rideApp } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'
import { appOf, linesOf, scripted, TARGET } from '../support/scripted-app.js'

const PROBLEM = { 'content-type': 'application/problem+json', 'cache-control': 'no-store' }

test('a transient failure is reported as one, nothing is stored, and the retry goes on and charges once', async () => {
  const { app, provider, database } = await rideApp()
  await provider.willMeet('executes_then_cuts')
  const failed = await send(app)
  expect(failed.statusCode).toBe(503)
  expect(failed.headers).toMatchObject({
    ...PROBLEM,
    'retry-after': expect.stringMatching(/^[1-9]\d*$/) as string,
  })
  expect(failed.json()).toMatchObject({ status: 503, code: 'temporarily_unavailable' })
  expect(await keyRows(database)).toMatchObject([{ recovery_point: 'ride_created', response_status: null }])
  const again = await send(app)
  expect(again.statusCode).toBe(201)
  expect(again.headers).not.toHaveProperty('idempotency-replayed')
  expect(await database.rows('SELECT 1 FROM rides')).toHaveLength(1)
  expect(await provider.ledger()).toHaveLength(1)
  expect(await provider.requests()).toHaveLength(2)
})

test.each([
  [90_000, '90'],
  [90_001, '91'],
  [1, '1'],
])(
  'retryLater in %i ms becomes a Retry-After of %s s, rounded up and never zero',
  async (afterMs, header) => {
    const { app } = await appOf(scripted([() => retryLater(new Error('not yet'), { afterMs })]))
    const failed = await send(app, TARGET)
    expect(failed.statusCode).toBe(503)
    expect(failed.headers['retry-after']).toBe(header)
  },
)

const fail = (): never => {
  throw new TypeError('secret of the code')
}

test('an unknown exception is not shown to the client, nothing is stored, and the retry goes on', async () => {
  const { app, database, log } = await appOf(scripted([fail]))
  const failed = await send(app, TARGET)
  expect(failed.statusCode).toBe(500)
  expect(failed.headers).toMatchObject({ ...PROBLEM, 'retry-after': expect.any(String) as string })
  expect(failed.json()).toMatchObject({ status: 500, code: 'unexpected_error' })
  expect(failed.body).not.toContain('secret')
  expect(log).toContainEqual(
    expect.objectContaining({
      level: 50,
      err: expect.objectContaining({ message: 'secret of the code' }) as object,
    }),
  )
  expect(await keyRows(database)).toMatchObject([
    { status: 'running', recovery_point: 'written', response_status: null, lease_until: null },
  ])
  const again = await send(app, TARGET)
  expect(again.statusCode).toBe(201)
  expect(again.headers).not.toHaveProperty('idempotency-replayed')
  expect(await audit(database)).toEqual(['written'])
})

test.each([503, 429])('a %i that a phase answers is sent as it is, and not stored', async (status) => {
  const sorry = { headers: { 'retry-after': '7', 'x-why': 'busy' } }
  const { app, database } = await appOf(scripted([() => respond(status, { sorry: true }, sorry)]))
  const failed = await send(app, TARGET)
  expect(failed.statusCode).toBe(status)
  expect(failed.json()).toEqual({ sorry: true })
  expect(failed.headers).toMatchObject({ 'retry-after': '7', 'x-why': 'busy' })
  expect(failed.headers).not.toHaveProperty('idempotency-expires')
  expect(await keyRows(database)).toMatchObject([{ recovery_point: 'written', response_status: null }])
  expect((await send(app, TARGET)).statusCode).toBe(201)
  expect(await audit(database)).toEqual(['written'])
})

test('a 503 of a phase that does not say when to come back gets a Retry-After', async () => {
  const { app } = await appOf(scripted([() => respond(503, { sorry: true })]))
  expect((await send(app, TARGET)).headers['retry-after']).toMatch(/^[1-9]\d*$/)
})

test('a store that cannot be reached is reported as one, and logged as an error, and no code of the pipeline has run', async () => {
  const pool = new pg.Pool({ connectionString: 'postgresql://nobody@127.0.0.1:1/nothing' })
  onTestFinished(() => pool.end())
  let ran = 0
  const target = pipeline<null>({ name: 'counting', version: 1 }).finish(() => {
    ran++
    return respond(200)
  })
  const { app, log } = await appOf(target, { engine: { pool } })
  const answer = await send(app, TARGET)
  expect(answer.statusCode).toBe(503)
  expect(answer.headers).toMatchObject({ ...PROBLEM, 'retry-after': '1' })
  expect(answer.json()).toMatchObject({ status: 503, code: 'store_unavailable' })
  expect(answer.body).not.toContain('127.0.0.1')
  expect(ran).toBe(0)
  expect(linesOf(log, 50)).toMatchObject([{ outcome: 'unavailable', pipeline: 'counting' }])
})

test('a stuck request is answered with its id, says that a person has to look, and is not tried again', async () => {
  let calls = 0
  const target = pipeline<null>({ name: 'sending', version: 1 })
    .foreign('sent', {
      guarantee: 'at_most_once',
      call: async () => {
        calls++
        throw new Error('cut off')
      },
    })
    .finish(() => respond(204))
  const { app, database, log } = await appOf(target)
  for (const answer of [await send(app, TARGET), await send(app, TARGET)]) {
    const [row] = await keyRows(database)
    expect(answer.statusCode).toBe(500)
    expect(answer.headers).toMatchObject(PROBLEM)
    expect(answer.headers).not.toHaveProperty('retry-after')
    expect(answer.json()).toMatchObject({ code: 'request_stuck', instance: `urn:uuid:${row?.id}` })
    expect(answer.body).not.toContain('cut off')
  }
  expect(calls).toBe(1)
  expect(linesOf(log, 50)).toMatchObject([
    { outcome: 'stuck', reason: 'unknown_outcome' },
    { outcome: 'stuck' },
  ])
})

test('a request of a version that is not registered here is told to come back, logged as an error, and left as it is', async () => {
  const older = await appOf(scripted([retryLater]))
  await send(older.app, TARGET)
  const before = await keyRows(older.database)
  const next = pipeline<null>({ name: 'scripted', version: 2 }).finish(() => respond(200))
  const { app, log } = await appOf(next, { beside: older })
  const answer = await send(app, TARGET)
  expect(answer.statusCode).toBe(503)
  expect(answer.headers).toMatchObject({ ...PROBLEM, 'retry-after': '1' })
  expect(answer.json()).toMatchObject({ status: 503, code: 'version_not_available' })
  expect(linesOf(log, 50)).toMatchObject([{ outcome: 'refused', pipeline: 'scripted', version: 1 }])
  expect(await keyRows(older.database)).toEqual(before)
  expect((await send(older.app, TARGET)).statusCode).toBe(201)
})

test('input that the schema of the pipeline refuses is answered with every error and where it is, and writes no row', async () => {
  const Input = z.object({ seats: z.array(z.object({ row: z.number() })) })
  const booking = pipeline({ name: 'booking', version: 1, input: Input }).finish(() => respond(201))
  const { app, database } = await rideApp({
    pipelines: [booking],
    routes: (server) =>
      void server.post<{ Body: z.infer<typeof Input> }>('/target', { idempotency: true }, (request) =>
        request.pawl.run(booking, request.body),
      ),
  })
  const refused = await send(app, { ...TARGET, payload: { seats: [{ row: 1 }, { row: 'x' }] } })
  expect(refused.statusCode).toBe(400)
  expect(refused.headers).toMatchObject(PROBLEM)
  expect(refused.json()).toMatchObject({
    code: 'invalid_input',
    errors: [{ path: 'seats.1.row', detail: expect.stringContaining('number') as string }],
  })
  expect(await keyRows(database)).toEqual([])
  const right = await send(app, { ...TARGET, payload: { seats: [{ row: 1 }] } })
  expect(right.statusCode).toBe(201)
})

test('an input over the cap is refused as too large, and writes no row', async () => {
  const { app, database } = await rideApp({ engine: { caps: { inputBytes: 64 } } })
  const refused = await send(app, { payload: { amount: 1, note: 'x'.repeat(64) } })
  expect(refused.statusCode).toBe(413)
  expect(refused.headers).toMatchObject(PROBLEM)
  expect(refused.json()).toMatchObject({ status: 413, code: 'request_too_large' })
  expect(await keyRows(database)).toEqual([])
})
