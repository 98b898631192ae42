import { respond, retryLater } from '@pawl/core'
import type { LightMyRequestResponse } from 'fastify'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { ask, completerOf, idleCompleter, PREFER, sendAsync } from '../support/async-app.js'
import { heard } from '../support/heard.js'
import { lasting, listen, send as sendOnSocket } from '../support/http-client.js'
import { audit, keyRows, send, sendWithoutKey } from '../support/http-requests.js'
import { rideApp } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'
import { appOf, linesOf, scripted, TARGET } from '../support/scripted-app.js'
import { expectOneWholeRide } from '../support/whole-ride.js'

const body = { amount: 20 }
const plugin = { respondAsync: true }

const LOCATION = /^\/(?:rides|target)\/idempotent-requests\/[0-9a-f-]{36}$/

function expectAccepted({ statusCode, headers, json }: LightMyRequestResponse): void {
  expect(statusCode).toBe(202)
  expect(headers).toMatchObject({
    'content-type': 'application/json; charset=utf-8',
    location: expect.stringMatching(LOCATION) as unknown,
    'retry-after': '1',
    'cache-control': 'no-store',
  })
  expect(json()).toEqual({ status: 'running', location: headers['location'] })
}

test('a client that does not wait gets 202, and the completer is woken and runs its request', async () => {
  const { app, engine, database, provider } = await rideApp({ plugin })
  await idleCompleter(engine)
  const finished = heard('pawl:finished')
  const url = await listen(app)

  const accepted = await sendOnSocket(url, { body, headers: PREFER })
  expect(accepted.status).toBe(202)
  expect(accepted.headers).toMatchObject({
    'content-type': 'application/json; charset=utf-8',
    location: expect.stringMatching(LOCATION) as unknown,
    'retry-after': '1',
    'cache-control': 'no-store',
    'preference-applied': 'respond-async',
    vary: 'Prefer',
  })
  const { location: path = '' } = accepted.headers
  expect(JSON.parse(accepted.body.toString())).toEqual({ status: 'running', location: path })
  await finished

  const status = await sendOnSocket(url, { method: 'GET', path })
  expect(status.status).toBe(201)
  expect(status.headers).toMatchObject({
    'idempotency-replayed': 'true',
    'idempotency-expires': expect.any(String) as unknown,
    'cache-control': 'no-store',
    location: expect.stringMatching(/^\/rides\//) as unknown,
  })
  const replay = await sendOnSocket(url, { body })
  const { vary, ...others } = replay.headers
  expect(vary).toBe('Prefer')
  // All but the headers of a resource that changes, and of a route that heeds the preference.
  const { 'cache-control': cached, ...statusHeaders } = status.headers
  expect(cached).toBe('no-store')
  expect(lasting({ ...status, headers: statusHeaders })).toEqual(lasting({ ...replay, headers: others }))
  await expectOneWholeRide(database, provider)
})

test('every way to ask says that the request runs while it does, and returns its response once it has finished', async () => {
  const { app, engine, database, provider } = await rideApp({ plugin })
  await idleCompleter(engine)
  await provider.willMeet('hold_then_execute')
  const first = await sendAsync(app)
  expectAccepted(first)
  await provider.arrived()

  const again = await sendAsync(app)
  expectAccepted(again)
  expect(again.headers['location']).toBe(first.headers['location'])
  const status = await ask(app, first)
  expectAccepted(status)
  expect(status.headers['preference-applied']).toBeUndefined()
  const waiting = await send(app)
  expect([waiting.statusCode, waiting.json<{ code: string }>().code]).toEqual([409, 'request_in_progress'])

  const finished = heard('pawl:finished')
  await provider.letGo()
  await finished
  const answers = await Promise.all([sendAsync(app), send(app), ask(app, first)])
  for (const { statusCode, headers, rawPayload } of answers) {
    expect(statusCode).toBe(201)
    expect(headers['idempotency-replayed']).toBe('true')
    expect(headers['preference-applied']).toBeUndefined()
    expect(rawPayload).toEqual(answers[0].rawPayload)
  }
  await expectOneWholeRide(database, provider)
})

test('a retry that waits runs a request that nobody has begun', async () => {
  const { app, database, provider } = await rideApp({ plugin })
  const accepted = await sendAsync(app)
  expectAccepted(accepted)
  expect(await provider.requests()).toEqual([])
  expect(await database.rows('SELECT fence, attempts, lease_until FROM pawl.idempotency_keys')).toEqual([
    { fence: '1', attempts: 0, lease_until: null },
  ])

  const inline = await send(app)
  expect(inline.statusCode).toBe(201)
  expect(inline.headers['idempotency-replayed']).toBeUndefined()
  expect(await database.rows('SELECT fence FROM pawl.idempotency_keys')).toEqual([{ fence: '2' }])
  expect((await ask(app, accepted)).rawPayload).toEqual(inline.rawPayload)
  await expectOneWholeRide(database, provider)
})

test('fifty requests at once make one row and one effect, and each gets 202 or the response', async () => {
  const { app, engine, database, provider } = await rideApp({ plugin })
  await idleCompleter(engine)
  const finished = heard('pawl:finished')
  const url = await listen(app)
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => sendOnSocket(url, { body, headers: PREFER })),
  )
  await finished
  const statuses = answers.map(({ status }) => status)
  expect(statuses.filter((status) => status !== 202 && status !== 201)).toEqual([])
  expect(statuses).toContain(202)
  const locations = answers.filter(({ status }) => status === 202).map(({ headers }) => headers.location)
  expect(new Set(locations).size).toBe(1)
  await expectOneWholeRide(database, provider)
})

test('other content under the same key is a mismatch, and changes nothing', async () => {
  const { app, database } = await rideApp({ plugin })
  await sendAsync(app)
  const before = await database.rows('SELECT xmin, xmax, * FROM pawl.idempotency_keys')
  const other = await sendAsync(app, { payload: { amount: 21 } })
  expect([other.statusCode, other.json<{ code: string }>().code]).toEqual([422, 'idempotency_key_reused'])
  expect(other.headers['vary']).toBe('Prefer')
  expect(await database.rows('SELECT xmin, xmax, * FROM pawl.idempotency_keys')).toEqual(before)
})

const fail = (): never => {
  throw new Error('no')
}

test('a stuck request is reported as stuck to a retry and by its status', async () => {
  const { app, engine, database } = await appOf(scripted([fail, fail], { maxAttempts: 1 }), { plugin })
  const background = completerOf(engine)
  const accepted = await sendAsync(app, TARGET)
  expectAccepted(accepted)
  // The first phase has committed, which counts as progress: the next failure is the first one since.
  expect((await background.runOnce()).completer).toMatchObject({ found: 1, retried: 1 })
  await database.rows('UPDATE pawl.idempotency_keys SET run_after = NULL')
  expect((await background.runOnce()).completer).toMatchObject({ found: 1, stuck: 1 })
  const [, id = ''] = /([^/]+)$/.exec(String(accepted.headers['location'])) ?? []
  for (const answer of [await sendAsync(app, TARGET), await ask(app, accepted)]) {
    expect(answer.statusCode).toBe(500)
    expect(answer.json()).toMatchObject({ code: 'request_stuck', instance: `urn:uuid:${id}` })
    expect(answer.headers['retry-after']).toBeUndefined()
  }
})

test('a request that has failed for now is reported as still to be run', async () => {
  const { app, engine, database } = await appOf(scripted([() => retryLater('not now')]), { plugin })
  const background = completerOf(engine)
  const accepted = await sendAsync(app, TARGET)
  expect((await background.runOnce()).completer).toMatchObject({ found: 1, retried: 1 })
  expectAccepted(await ask(app, accepted))
  expectAccepted(await sendAsync(app, TARGET))
  await database.rows('UPDATE pawl.idempotency_keys SET run_after = NULL')
  expect((await background.runOnce()).completer).toMatchObject({ found: 1, completed: 1 })
  expect((await ask(app, accepted)).statusCode).toBe(201)
  expect(await audit(database)).toEqual(['written'])
})

test('keys that are unique per route have a status as well', async () => {
  const { app, engine } = await rideApp({ plugin: { ...plugin, keyScope: 'route' } })
  const accepted = await sendAsync(app)
  expectAccepted(accepted)
  await completerOf(engine).runOnce()
  const status = await ask(app, accepted)
  expect(status.statusCode).toBe(201)
  expect(status.rawPayload).toEqual((await sendAsync(app)).rawPayload)
})

test('with a generated key, the status is the way to get the response', async () => {
  const { app, engine } = await rideApp({ plugin, route: { required: false, respondAsync: 'always' } })
  const accepted = await sendWithoutKey(app)
  expectAccepted(accepted)
  expect(accepted.headers['idempotency-key']).toMatch(/^generated-/)
  await completerOf(engine).runOnce()
  const status = await ask(app, accepted)
  expect(status.statusCode).toBe(201)
  expect(status.headers['idempotency-key']).toBeUndefined()
  expect(status.headers['idempotency-expires']).toEqual(expect.any(String))
})

test('invalid input is refused at once, and leaves no row', async () => {
  const Input = z.object({ amount: z.number().max(10) })
  const strict = pipeline({ name: 'strict', version: 1, input: Input }).finish(() => respond(200))
  const { app, database } = await rideApp({
    plugin,
    pipelines: [strict],
    routes: (server) =>
      void server.post<{ Body: z.infer<typeof Input> }>('/target', { idempotency: true }, (request) =>
        request.pawl.run(strict, request.body),
      ),
  })
  const refused = await sendAsync(app, TARGET)
  expect([refused.statusCode, refused.json<{ code: string }>().code]).toEqual([400, 'invalid_input'])
  // The same holds for Fastify's own validation, and for the key.
  expect((await sendAsync(app, { payload: { amount: 0 } })).statusCode).toBe(400)
  expect((await sendAsync(app, { headers: { 'idempotency-key': '' } })).statusCode).toBe(400)
  expect(await keyRows(database)).toEqual([])
})

test('while the store is away, nothing is accepted', async () => {
  const pool = new pg.Pool({ connectionString: 'postgresql://nobody@127.0.0.1:1/nothing' })
  onTestFinished(() => pool.end())
  const { app } = await rideApp({ plugin, engine: { pool } })
  const refused = await sendAsync(app)
  expect([refused.statusCode, refused.json<{ code: string }>().code]).toEqual([503, 'store_unavailable'])
  expect(refused.headers['retry-after']).toBe('1')
})

test('the log has a line for each step, and no key', async () => {
  const { app, engine, log } = await rideApp({ plugin })
  const accepted = await sendAsync(app, { headers: { 'idempotency-key': 'a-secret-key' } })
  await ask(app, accepted)
  await completerOf(engine).runOnce()
  await ask(app, accepted)
  const lines = linesOf(log, 30).filter((line) => line !== undefined)
  const common = { keyHash: expect.any(String) as unknown, pipeline: 'create-ride' }
  expect(lines).toMatchObject([
    { ...common, outcome: 'enqueued', fresh: true, generatedKey: false },
    { ...common, outcome: 'enqueued', fresh: false, asked: 'status' },
    { ...common, outcome: 'replayed', status: 201, asked: 'status' },
  ])
  const hashes = lines.map((line) => (line as { keyHash: string }).keyHash)
  expect(new Set(hashes).size).toBe(1)
  expect(JSON.stringify(log)).not.toContain('a-secret-key')
})
