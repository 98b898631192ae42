import fastifyPawl from '@pawl/fastify'
import { respond } from '@pawl/core'
import Fastify, { type FastifyInstance, type FastifyReply } from 'fastify'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { idleEngine } from '../support/idle-engine.js'
import { post } from '../support/notes.js'
import { rideApp } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'

const atomic = { idempotency: { atomic: true } } as const

/** Sends one request under one key to each, and returns their answers. */
async function answers(app: FastifyInstance, ...requests: (object & { url: string })[]): Promise<unknown[]> {
  const headers = { authorization: 'Bearer ann', 'idempotency-key': 'k' }
  const given: unknown[] = []
  for (const { headers: more, ...request } of requests as { url: string; headers?: object }[]) {
    const response = await app.inject({
      method: 'POST',
      payload: {},
      ...request,
      headers: { ...headers, ...more },
    })
    given.push(response.statusCode === 200 ? response.json() : response.statusCode)
  }
  return given
}

const versions = (app: FastifyInstance) => {
  for (const version of ['1.0.0', '2.0.0'])
    app.post('/pay', { ...atomic, constraints: { version } }, async () => ({ version }))
}

describe('routes that differ only in a constraint', () => {
  const first = { url: '/pay', headers: { 'accept-version': '1.0.0' } }
  const second = { url: '/pay', headers: { 'accept-version': '2.0.0' } }

  test('are different requests', async () => {
    const { app } = await rideApp({ routes: versions })
    expect(await answers(app, first, second, first)).toEqual([
      { version: '1.0.0' },
      422,
      { version: '1.0.0' },
    ])
  })

  test('have separate keys if keys belong to a route', async () => {
    const { app } = await rideApp({ routes: versions, plugin: { keyScope: 'route' } })
    expect(await answers(app, first, second)).toEqual([{ version: '1.0.0' }, { version: '2.0.0' }])
  })
})

test.each(['account', 'route'] as const)(
  'renaming a parameter changes nothing for keys of the %s',
  async (keyScope) => {
    let runs = 0
    const declare = (url: string) => (app: FastifyInstance) =>
      void app.post(url, atomic, async () => ({ runs: ++runs }))
    const before = await rideApp({ plugin: { keyScope }, routes: declare('/accounts/:id/pay') })
    const after = await rideApp({
      plugin: { keyScope },
      routes: declare('/accounts/:accountId/pay'),
      beside: before,
    })
    for (const { app } of [before, after])
      expect(await answers(app, { url: '/accounts/7/pay' })).toEqual([{ runs: 1 }])
  },
)

test('the path counts as it was sent, not as it was rewritten', async () => {
  const { app } = await rideApp({
    server: { rewriteUrl: ({ url = '' }) => url.replace(/^\/t\d/, '') },
    routes: (server) => void server.post('/notes', atomic, async (request) => ({ url: request.originalUrl })),
  })
  expect(await answers(app, { url: '/t1/notes' }, { url: '/t2/notes' }, { url: '/t1/notes?' })).toEqual([
    { url: '/t1/notes' },
    422,
    { url: '/t1/notes' },
  ])
})

test('hooks that another plugin adds to the route run before the key is read', async () => {
  const { app } = await rideApp({
    routes: async (server) => {
      server.addHook('onRoute', (route) => {
        if (route.url === '/notes')
          route.preHandler = [
            ...[route.preHandler ?? []].flat(),
            async (_request: unknown, reply: FastifyReply) => reply.code(403).send(),
          ]
      })
      server.post('/notes', atomic, async () => 'secret')
    },
  })
  const headers = { authorization: 'Bearer ann' }
  expect((await app.inject({ method: 'POST', url: '/notes', headers })).statusCode).toBe(403)
})

test("if a pipeline's fingerprint cannot read an invalid input, the schema reports it", async () => {
  const picky = pipeline({
    name: 'picky',
    version: 1,
    input: z.object({ card: z.object({ number: z.string() }) }),
    fingerprint: (input) => input.card.number,
  }).finish(() => respond(201))
  const { app } = await rideApp({
    pipelines: [picky],
    routes: (server) =>
      void server.post<{ Body: { card: { number: string } } }>('/picky', { idempotency: true }, (request) =>
        request.pawl.run(picky, request.body),
      ),
  })
  expect((await post(app, '/picky')).json()).toMatchObject({
    code: 'invalid_input',
    errors: [{ path: 'card' }],
  })
  expect((await post(app, '/picky', { payload: { card: { number: '4' } } })).statusCode).toBe(201)
})

test.each(['pawl', 'tx'])("somebody else's decorator '%s' is not mistaken for ours", async (name) => {
  const app = Fastify()
  onTestFinished(() => app.close())
  app.decorateRequest(name, null)
  const registered = Promise.resolve(app.register(fastifyPawl, { engine: idleEngine(), scope: () => 'ann' }))
  await expect(registered).rejects.toMatchObject({ code: 'FST_ERR_DEC_ALREADY_PRESENT' })
})

test('methods that the application adds are audited as well', async () => {
  const { app } = await rideApp({
    routes: (server) => {
      server.addHttpMethod('COPY', { hasBody: true })
      server.route({ method: 'COPY', url: '/files', handler: async () => 'copied' })
    },
  })
  expect(app.idempotencyAudit()).toContainEqual({ method: 'COPY', url: '/files', key: 'none', reason: null })
})

test('a second registration does not report the routes of the first, however they are written', async () => {
  const app = Fastify({ routerOptions: { caseSensitive: false } })
  onTestFinished(() => app.close())
  const options = { engine: idleEngine(), scope: () => 'ann', enforce: 'error' } as const
  await app.register(fastifyPawl, options)
  for (const url of ['/Upper', '/opt/:id?', '/name::verb'])
    app.post(url, { idempotency: true }, async () => 'x')
  await app.register(async (child) => {
    await child.register(fastifyPawl, options)
  })
  await app.ready()
})

test('an error of the scope function is answered even if the handler forgot to return run()', async () => {
  const answering = pipeline<object>({ name: 'answering', version: 1 }).finish(() => respond(201))
  const { app } = await rideApp({
    pipelines: [answering],
    plugin: { scope: () => Promise.reject(Object.assign(new Error('not you'), { statusCode: 403 })) },
    routes: (server) =>
      void server.post('/it', { idempotency: true }, (request) => void request.pawl.run(answering, {})),
  })
  const response = await post(app, '/it')
  expect([response.statusCode, response.json<{ message: string }>().message]).toEqual([403, 'not you'])
})

test.each([
  ['plain', 'plain'],
  ['"a,b"', '"a,b"'],
  ['" a "', '" a "'],
  ['"plain"', 'plain'],
])('the stripe profile sends the key %s back in a form that can be sent again', async (sent, told) => {
  const { app } = await rideApp({ plugin: { profile: 'stripe' } })
  const first = await post(app, '/rides', { key: sent, payload: { amount: 1 } })
  expect(first.headers['idempotency-key']).toBe(told)
  const again = await post(app, '/rides', { key: told, payload: { amount: 1 } })
  expect(again.headers['idempotent-replayed']).toBe('true')
})

test('a retention that ends beyond every calendar is refused when the route is declared', async () => {
  const app = rideApp({
    routes: (server) =>
      void server.post('/kept', { idempotency: { atomic: { retentionMs: 1e15 } } }, async () => 'kept'),
  })
  await expect(app).rejects.toThrow('retentionMs is 1000000000000000; it takes at most 3162240000000')
})
