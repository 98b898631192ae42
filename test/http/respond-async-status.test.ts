import { randomUUID } from 'node:crypto'
import { respond } from '@pawl/core'
import fastifyPawl from '@pawl/fastify'
import type { LightMyRequestResponse } from 'fastify'
import pg from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ask, completerOf, PREFER, sendAsync } from '../support/async-app.js'
import { listen, send as sendOnSocket } from '../support/http-client.js'
import { send } from '../support/http-requests.js'
import { rideApp } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'
import { appOf, scripted, TARGET } from '../support/scripted-app.js'

const plugin = { respondAsync: true }
const STATUS = '/rides/idempotent-requests'

/** Everything that a client sees, except for the time. */
function seen({ statusCode, headers, payload }: LightMyRequestResponse): unknown {
  const { date: _date, ...others } = headers
  return { statusCode, headers: others, payload }
}

test("somebody else's request, one that never existed and an invalid id look the same", async () => {
  const { app, engine } = await rideApp({ plugin })
  const anns = await sendAsync(app)
  const finished = await sendAsync(app, { headers: { 'idempotency-key': 'k2' } })
  const { keyId = '' } = (await engine.inspect('ann', 'k2')) ?? {}
  await engine.resume(keyId)
  expect((await ask(app, finished)).statusCode).toBe(201)

  const ofBob = { headers: { authorization: 'Bearer bob' } }
  const [running, done] = [await ask(app, anns, ofBob), await ask(app, finished, ofBob)]
  expect(running.statusCode).toBe(404)
  expect(running.json()).toMatchObject({ code: 'request_not_found', status: 404 })
  const ids = [
    randomUUID(),
    'none',
    '',
    '%00',
    '..%2frides',
    `${randomUUID()}0`,
    "1'%20OR%20'1'='1",
    'x'.repeat(100),
  ]
  const others = await Promise.all(
    ids.map((id) => app.inject({ method: 'GET', url: `${STATUS}/${id}`, ...ofBob })),
  )
  for (const other of [done, ...others]) expect(seen(other)).toEqual(seen(running))
})

test('a scope that asks for too many is told when to come back, and its requests go on', async () => {
  const { app } = await rideApp({ plugin, engine: { limits: { lookups: { max: 2, perMs: 3_600_000 } } } })
  const accepted = await sendAsync(app)
  const unknown = { url: `${STATUS}/${randomUUID()}` }
  expect((await ask(app, accepted)).statusCode).toBe(202)
  expect((await ask(app, accepted, unknown)).statusCode).toBe(404)
  const [known, guessed] = [await ask(app, accepted), await ask(app, accepted, unknown)]
  for (const refused of [known, guessed]) {
    expect(refused.statusCode).toBe(429)
    expect(refused.json()).toMatchObject({
      code: 'too_many_requests',
      detail: expect.stringMatching(/status/),
    })
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(60)
    expect(refused.headers['ratelimit-policy']).toBe('"lookups";q=2;w=3600')
  }
  // It tells nothing of whether there is such a request.
  expect(known.payload).toBe(guessed.payload)
  expect((await ask(app, accepted, { headers: { authorization: 'Bearer bob' } })).statusCode).toBe(404)
  expect((await sendAsync(app, { headers: { 'idempotency-key': 'another' } })).statusCode).toBe(202)
})

test('the id may be written in capitals', async () => {
  const { app } = await rideApp({ plugin })
  const accepted = await sendAsync(app)
  const [, id = ''] = /([^/]+)$/.exec(String(accepted.headers['location'])) ?? []
  const status = await ask(app, accepted, { url: `${STATUS}/${id.toUpperCase()}` })
  expect(status.statusCode).toBe(202)
  expect(status.headers['location']).toBe(accepted.headers['location'])
})

describe('whoever asks is authenticated as on any route', () => {
  test('by the hooks of the instance, even after access is lost', async () => {
    const { app, revoked } = await rideApp({ plugin })
    const accepted = await sendAsync(app)
    expect((await ask(app, accepted, { headers: { authorization: '' } })).statusCode).toBe(401)
    revoked.add('ann')
    expect((await ask(app, accepted)).statusCode).toBe(401)
  })

  test('by hooks of its own', async () => {
    const asked: string[] = []
    const onRequest = [
      async (request: { readonly user: string | null }) => void asked.push(`first ${request.user}`),
      async () => void asked.push('second'),
    ]
    const { app } = await rideApp({ plugin: { respondAsync: { onRequest } } })
    const accepted = await sendAsync(app)
    expect(asked).toEqual([])
    expect((await ask(app, accepted)).statusCode).toBe(202)
    expect(asked).toEqual(['first ann', 'second'])
  })

  test('by the scope function, whose error the application answers', async () => {
    const forbidden = Object.assign(new Error('not you'), { statusCode: 403 })
    const scope = ({ method }: { readonly method: string }) => {
      if (method === 'GET') throw forbidden
      return 'ann'
    }
    const { app } = await rideApp({ plugin: { ...plugin, scope } })
    const status = await ask(app, await sendAsync(app))
    expect([status.statusCode, status.json<{ message: string }>().message]).toEqual([403, 'not you'])
  })

  test('and nothing is shown to somebody who is not, whatever the id', async () => {
    const { app, log } = await rideApp({
      plugin: { ...plugin, scope: ({ method }) => (method === 'GET' ? null : 'ann') },
    })
    const known = await ask(app, await sendAsync(app))
    expect([known.statusCode, known.json<{ code: string }>().code]).toEqual([500, 'internal_error'])
    expect(seen(await ask(app, known, { url: `${STATUS}/none` }))).toEqual(seen(known))
    const err = expect.objectContaining({ code: 'PAWL_NO_SCOPE' }) as unknown
    expect(log).toContainEqual(expect.objectContaining({ level: 50, err }))
  })
})

test('HEAD has the same headers and no body', async () => {
  const { app, engine } = await rideApp({ plugin })
  const url = await listen(app)
  const { headers: told } = await sendOnSocket(url, { body: { amount: 20 }, headers: PREFER })
  const path = told.location ?? ''
  for (const status of [202, 201]) {
    const [get, head] = [
      await sendOnSocket(url, { method: 'GET', path }),
      await sendOnSocket(url, { method: 'HEAD', path }),
    ]
    const { date: _get, ...getHeaders } = get.headers
    const { date: _head, ...headHeaders } = head.headers
    expect([get.status, head.status]).toEqual([status, status])
    expect(headHeaders).toEqual(getHeaders)
    expect(get.body.length).toBeGreaterThan(0)
    expect(head.body).toHaveLength(0)
    await completerOf(engine).runOnce()
  }
})

test('asking only reads: it neither changes nor locks the row', async () => {
  const { app, engine, database, provider } = await rideApp({ plugin })
  const accepted = await sendAsync(app)
  const row = () => database.rows('SELECT ctid, xmin, xmax, * FROM pawl.idempotency_keys')
  const before = await row()
  await ask(app, accepted)
  await ask(app, accepted, { method: 'HEAD' })
  expect(await row()).toEqual(before)
  expect(await provider.requests()).toEqual([])

  await completerOf(engine).runOnce()
  const finished = await row()
  expect((await ask(app, accepted)).statusCode).toBe(201)
  expect(await row()).toEqual(finished)
})

test('the status is answered even while somebody writes to the row', async () => {
  const { app, database } = await rideApp({ plugin })
  const accepted = await sendAsync(app)
  const other = await database.admin.connect()
  onTestFinished(() => other.release())
  await other.query(`BEGIN; SELECT FROM ${database.schema}.idempotency_keys FOR UPDATE`)
  expect((await ask(app, accepted)).statusCode).toBe(202)
  await other.query('ROLLBACK')
})

test('a request that its client waits for has a status as well', async () => {
  const { app, engine } = await rideApp({ plugin })
  const response = await send(app)
  const { keyId } = (await engine.inspect('ann', 'k1')) ?? {}
  const status = await ask(app, response, { url: `${STATUS}/${keyId}` })
  expect(status.statusCode).toBe(201)
  expect(status.rawPayload).toEqual(response.rawPayload)
})

test('while the store is away, the status says so', async () => {
  const pool = new pg.Pool({ connectionString: 'postgresql://nobody@127.0.0.1:1/nothing' })
  onTestFinished(() => pool.end())
  const { app, log } = await rideApp({ plugin, engine: { pool } })
  const headers = { authorization: 'Bearer ann' }
  const status = await app.inject({ method: 'GET', url: `${STATUS}/${randomUUID()}`, headers })
  expect([status.statusCode, status.json<{ code: string }>().code]).toEqual([503, 'store_unavailable'])
  expect(status.headers['retry-after']).toBe('1')
  expect(log).toContainEqual(
    expect.objectContaining({ level: 50, msg: 'the idempotency store is not available' }),
  )
})

test('a stored header that lets caches keep the response is not sent with the status', async () => {
  const headers = { 'cache-control': 'max-age=60', vary: 'Origin' }
  const cached = scripted([() => respond(200, {}, { headers })])
  const { app, engine } = await appOf(cached, {
    plugin: { ...plugin, storedHeaders: ['cache-control', 'vary'] },
  })
  const accepted = await sendAsync(app, TARGET)
  await completerOf(engine).runOnce()
  const status = await ask(app, accepted)
  expect(status.headers).toMatchObject({ 'cache-control': 'no-store', vary: 'Origin' })
  const replay = await send(app, TARGET)
  expect(replay.headers).toMatchObject({ 'cache-control': 'max-age=60', vary: 'Origin, Prefer' })
})

test('the address of the status is below that of the request, at the configured path', async () => {
  const plain = pipeline<null>({ name: 'plain', version: 1 }).finish(() => respond(201))
  const { app } = await rideApp({
    pipelines: [plain],
    routes: (server, engine) => {
      void server.register(
        async (child) => {
          await child.register(fastifyPawl, {
            engine,
            scope: (request) => request.user,
            respondAsync: { statusPath: '/admin/operations' },
          })
          child.post('/plain', { idempotency: true }, (request) => request.pawl.run(plain, null))
        },
        { prefix: '/v1' },
      )
    },
  })
  const accepted = await sendAsync(app, { url: '/v1/plain' })
  expect(accepted.headers['location']).toMatch(/^\/v1\/plain\/admin\/operations\/[0-9a-f-]{36}$/)
  expect((await ask(app, accepted)).statusCode).toBe(202)
  // The outer registration has no status.
  expect((await sendAsync(app, { headers: { 'idempotency-key': 'k2' } })).statusCode).toBe(201)
})

describe('hooks and schemas of the route see only its own parameters', () => {
  const plain = pipeline<null>({ name: 'plain', version: 1 }).finish(() => respond(201))

  test('even one that has the name of our parameter for the id', async () => {
    const seenBy: unknown[] = []
    const { app } = await rideApp({
      plugin,
      pipelines: [plain],
      routes: (server) =>
        void server.post(
          '/keys/:keyId/rotate',
          {
            onRequest: async ({ params }) => void seenBy.push({ ...(params as object) }),
            preHandler: async ({ params }) => void seenBy.push({ ...(params as object) }),
            idempotency: true,
          },
          (request) => request.pawl.run(plain, null),
        ),
    })
    const accepted = await sendAsync(app, { url: '/keys/mine/rotate' })
    expect((await ask(app, accepted)).statusCode).toBe(202)
    expect((await ask(app, accepted, { method: 'HEAD' })).statusCode).toBe(202)
    expect(seenBy).toEqual(Array.from({ length: 6 }, () => ({ keyId: 'mine' })))
  })

  test('so that a schema which allows no others accepts them', async () => {
    const { app } = await rideApp({
      plugin,
      pipelines: [plain],
      server: { ajv: { customOptions: { removeAdditional: false } } },
      routes: (server) => {
        const params = {
          type: 'object',
          properties: { ride: { type: 'integer' } },
          additionalProperties: false,
        }
        server.post('/strict/:ride', { schema: { params }, idempotency: true }, (request) =>
          request.pawl.run(plain, null),
        )
      },
    })
    const accepted = await sendAsync(app, { url: '/strict/7' })
    expect((await ask(app, accepted)).statusCode).toBe(202)
    const wrong = String(accepted.headers['location']).replace('7', 'seven')
    expect((await ask(app, accepted, { url: wrong })).statusCode).toBe(400)
  })
})

test('the address of the status may be written in any way that the router takes for the same', async () => {
  const plain = pipeline<null>({ name: 'plain', version: 1 }).finish(() => respond(201))
  const { app } = await rideApp({
    plugin,
    pipelines: [plain],
    server: { routerOptions: { ignoreTrailingSlash: true } },
    routes: (server) =>
      void server.post('/to/:place', { idempotency: true }, (request) => request.pawl.run(plain, null)),
  })
  const accepted = await sendAsync(app, { url: '/to/caf%C3%A9%20%2F%25@1/' })
  const location = String(accepted.headers['location'])
  expect(location).toMatch(/^\/to\/caf%C3%A9%20%2F%25@1\/idempotent-requests\//)
  for (const url of [
    location,
    `${location}/`,
    location.replace('@', '%40'),
    location.replace('caf', '%63af'),
  ])
    expect((await ask(app, accepted, { url })).statusCode).toBe(202)
  const slashed = await ask(app, accepted, { url: `${location}/` })
  expect(slashed.headers['location']).toBe(location)
  for (const url of [location.replace('%25', '%2525'), location.replace('caf', 'Caf')])
    expect((await ask(app, accepted, { url })).statusCode).toBe(404)
})

test('an address that begins with two slashes does not lead to another host', async () => {
  const { app } = await rideApp({ plugin, server: { routerOptions: { ignoreDuplicateSlashes: true } } })
  const accepted = await sendAsync(app, { url: '//rides' })
  expect(accepted.headers['location']).toMatch(/^\/rides\/idempotent-requests\//)
})
