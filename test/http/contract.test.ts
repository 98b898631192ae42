import { respond, retryLater, subscribe } from '@pawl/core'
import type { IdempotencyOptions } from '@pawl/fastify'
import type { HTTPMethods } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { audit, keyRows, send, sendWithoutKey } from '../support/http-requests.js'
import { type RideApp, rideApp } from '../support/ride-app.js'
import { appOf, linesOf, scripted, TARGET } from '../support/scripted-app.js'
import { gate } from '../support/signals.js'

const PROBLEM = { 'content-type': 'application/problem+json', 'cache-control': 'no-store' }

/** An app whose `/target` takes this method only. */
function methodApp(method: HTTPMethods, idempotency: IdempotencyOptions | true): Promise<RideApp> {
  const target = scripted([])
  return rideApp({
    pipelines: [target],
    routes: (app) =>
      void app.route({
        method,
        ...TARGET,
        idempotency,
        handler: (request) => request.pawl.run(target, null),
      }),
  })
}

test('a first request gets the response of its pipeline, and the date until which it is replayed', async () => {
  const { app, database } = await rideApp()
  const first = await send(app)
  expect(first.statusCode).toBe(201)
  expect(first.headers).not.toHaveProperty('idempotency-replayed')
  expect(first.headers['content-type']).toBe('application/json; charset=utf-8')
  const [row] = await keyRows(database)
  expect(row).toMatchObject({ scope: 'ann', key: 'k1', status: 'finished', response_status: 201 })
  const expires = String(first.headers['idempotency-expires'])
  expect(new Date(expires).toUTCString()).toBe(expires)
  // A header has whole seconds. The date is rounded down, so that a replay is never promised for longer than it is kept.
  expect(Date.parse(expires)).toBe(Math.floor(Number(row?.expires_at) / 1_000) * 1_000)
})

// Shows I3.
test('a retry of a finished request gets the same status, headers and bytes, marked as a replay, and changes nothing', async () => {
  const target = scripted([
    () =>
      respond(202, { ö: 'ü', list: [1, 2] }, { headers: { location: '/there', etag: '"1"', 'x-own': 'a' } }),
  ])
  const { app, database } = await appOf(target)
  const first = await send(app, TARGET)
  const before = await keyRows(database)
  const again = await send(app, TARGET)
  expect(again.statusCode).toBe(202)
  expect(again.body).toBe('{"ö":"ü","list":[1,2]}')
  expect(again.rawPayload).toEqual(first.rawPayload)
  expect(again.headers).toEqual({
    ...first.headers,
    'idempotency-replayed': 'true',
    date: again.headers['date'],
  })
  expect(again.headers).toMatchObject({ location: '/there', etag: '"1"', 'x-own': 'a' })
  expect(await keyRows(database)).toEqual(before)
  expect(await audit(database)).toEqual(['written'])
})

test('headers that hold only for the moment are replayed as well if the plugin is told to store them', async () => {
  const target = scripted([() => respond(200, {}, { headers: { 'x-request-id': 'a', 'x-trace-id': 'b' } })])
  const { app } = await appOf(target, { plugin: { storedHeaders: ['X-Request-Id'] } })
  for (const response of [await send(app, TARGET), await send(app, TARGET)]) {
    expect(response.headers['x-request-id']).toBe('a')
    expect(response.headers).not.toHaveProperty('x-trace-id')
  }
})

test('a refusal of the pipeline is stored and replayed like any other response', async () => {
  const { app, provider } = await rideApp()
  await provider.willMeet('declined')
  const first = await send(app)
  const again = await send(app)
  expect([first.statusCode, again.statusCode]).toEqual([402, 402])
  expect(again.headers['idempotency-replayed']).toBe('true')
  expect(again.rawPayload).toEqual(first.rawPayload)
  expect(await provider.requests()).toHaveLength(1)
})

test('a retry while the first runs is told to come back, and changes nothing', async () => {
  const { app, provider, database } = await rideApp()
  await provider.willMeet('hold_then_execute')
  const first = send(app)
  await provider.arrived()
  const before = await keyRows(database)
  const second = await send(app)
  expect(second.statusCode).toBe(409)
  expect(second.headers).toMatchObject({ ...PROBLEM, 'retry-after': '1' })
  expect(second.json()).toMatchObject({ status: 409, code: 'request_in_progress' })
  expect(await keyRows(database)).toEqual(before)
  await provider.letGo()
  expect((await first).statusCode).toBe(201)
  expect((await send(app)).headers['idempotency-replayed']).toBe('true')
  expect(await provider.requests()).toHaveLength(1)
})

test('a retry that waits gets the response of the first, and counts as a replay', async () => {
  const { app, provider } = await rideApp({ route: { onConflict: { waitMs: 20_000 } } })
  await provider.willMeet('hold_then_execute')
  const first = send(app)
  await provider.arrived()
  const waits = gate()
  onTestFinished(subscribe('pawl:in_flight', waits.open))
  const second = send(app)
  await waits.opened
  await provider.letGo()
  expect((await second).rawPayload).toEqual((await first).rawPayload)
  expect((await second).headers['idempotency-replayed']).toBe('true')
  expect(await provider.ledger()).toHaveLength(1)
})

const fail = (): never => {
  throw new Error('no')
}

test.each(['running', 'finished', 'stuck'] as const)(
  'another request under the key of a %s one is refused, and changes nothing',
  async (status) => {
    const answers = { running: retryLater, finished: () => respond(200), stuck: fail }
    const answer = answers[status]
    // A phase that throws has one attempt at each point; the second is over the cap.
    const { app, database, log } = await appOf(scripted([answer, answer], { maxAttempts: 1 }))
    await send(app, TARGET)
    await send(app, TARGET)
    const before = await keyRows(database)
    expect(before).toMatchObject([{ status }])
    const other = await send(app, { ...TARGET, payload: { amount: 21 } })
    expect(other.statusCode).toBe(422)
    expect(other.headers).toMatchObject(PROBLEM)
    expect(other.json()).toMatchObject({ status: 422, code: 'idempotency_key_reused' })
    expect(await keyRows(database)).toEqual(before)
    expect(await audit(database)).toEqual(['written'])
    expect(linesOf(log, 40)).toContainEqual(expect.objectContaining({ outcome: 'mismatch' }))
  },
)

test.each(['POST', 'PATCH'] as const)('%s without a key is refused, and writes no row', async (method) => {
  const { app, database } = await methodApp(method, true)
  const refused = await sendWithoutKey(app, { method, ...TARGET })
  expect(refused.statusCode).toBe(400)
  expect(refused.headers).toMatchObject(PROBLEM)
  expect(refused.json()).toMatchObject({
    code: 'idempotency_key_missing',
    detail: expect.stringContaining('idempotency-key') as string,
  })
  expect(await audit(database)).toEqual([])
  expect(await keyRows(database)).toEqual([])
  expect((await send(app, { method, ...TARGET })).statusCode).toBe(201)
})

const SAFE_TO_REPEAT = ['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'] as const

test.each(SAFE_TO_REPEAT)('%s needs no key, and with one a retry gets a replay', async (method) => {
  const { app, database } = await methodApp(method, true)
  const request = method === 'PUT' ? { method, ...TARGET } : { method, ...TARGET, payload: '' }
  const plain = await sendWithoutKey(app, request)
  expect(plain.statusCode).toBe(201)
  const [row] = await keyRows(database)
  expect(row?.key).toMatch(/^generated-/)
  const first = await send(app, request)
  expect(first.headers).not.toHaveProperty('idempotency-replayed')
  const again = await send(app, request)
  expect(again.headers['idempotency-replayed']).toBe('true')
  expect(again.rawPayload).toEqual(first.rawPayload)
  expect(await audit(database)).toHaveLength(2)
})

test('a route may require a key where HTTP does not', async () => {
  const { app, database } = await methodApp('PUT', { required: true })
  const refused = await sendWithoutKey(app, { method: 'PUT', ...TARGET })
  expect(refused.statusCode).toBe(400)
  expect(refused.json()).toMatchObject({ code: 'idempotency_key_missing' })
  expect(await keyRows(database)).toEqual([])
  expect((await send(app, { method: 'PUT', ...TARGET })).statusCode).toBe(201)
})

test('where no key is required, one is generated and sent back, and a retry with it gets a replay', async () => {
  const { app, provider, database } = await rideApp({ route: { required: false } })
  const first = await sendWithoutKey(app)
  expect(first.statusCode).toBe(201)
  const key = String(first.headers['idempotency-key'])
  expect(await keyRows(database)).toMatchObject([{ key, status: 'finished' }])
  const again = await send(app, { headers: { 'idempotency-key': key } })
  expect(again.headers['idempotency-replayed']).toBe('true')
  expect(again.rawPayload).toEqual(first.rawPayload)
  expect(await provider.ledger()).toHaveLength(1)
  expect((await sendWithoutKey(app)).headers['idempotency-key']).not.toBe(key)
  expect(await provider.ledger()).toHaveLength(2)
})

test('a key that the client sent is not sent back', async () => {
  const { app } = await rideApp()
  expect((await send(app)).headers).not.toHaveProperty('idempotency-key')
})

test('HEAD of a marked GET is marked as well, and answers without the body', async () => {
  const { app, database } = await methodApp('GET', true)
  const request = { method: 'HEAD' as const, ...TARGET, payload: '' }
  const first = await send(app, request)
  expect([first.statusCode, first.body]).toEqual([201, ''])
  expect((await send(app, request)).headers['idempotency-replayed']).toBe('true')
  expect((await send(app, { ...request, method: 'GET' })).statusCode).toBe(422)
  expect(await audit(database)).toEqual(['written'])
})
