import fastifyPawl, { type FastifyPawlOptions } from '@pawl/fastify'
import Fastify, { type FastifyInstance } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { listen, send } from '../support/http-client.js'
import { authenticate, surroundings } from '../support/ride-app.js'
import { createEngine, createRideOf, type RideInput } from '../support/rides.js'

/** Creates a database, an account at the provider and an engine, to be registered somewhere. */
async function company(options: Partial<FastifyPawlOptions> = {}) {
  const { database, provider } = await surroundings()
  const createRide = createRideOf(provider)
  const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [createRide] })
  const plugin: FastifyPawlOptions = { engine, scope: (request) => request.user, ...options }
  const rides = (app: FastifyInstance, url = '/rides') =>
    void app.post<{ Body: RideInput }>(url, { idempotency: true }, (request) =>
      request.pawl.run(createRide, request.body),
    )
  const counts = async () => {
    const keys = await database.rows('SELECT id FROM pawl.idempotency_keys')
    return { keys: keys.length, charges: (await provider.ledger()).length }
  }
  return { plugin, engine, rides, counts }
}

/** An app with nothing but authentication. */
function emptyApp(): FastifyInstance {
  const app = Fastify()
  onTestFinished(() => app.close())
  authenticate(app)
  return app
}

const body = { amount: 20 }
const read = (bytes: Buffer) => JSON.parse(bytes.toString()) as unknown

test('two siblings have engines, options and conventions of their own', async () => {
  const red = await company()
  const blue = await company({ header: 'x-request-key', profile: 'stripe' })
  const app = emptyApp()
  await app.register(
    async (scope) => {
      await scope.register(fastifyPawl, red.plugin)
      red.rides(scope)
    },
    { prefix: '/red' },
  )
  await app.register(
    async (scope) => {
      await scope.register(fastifyPawl, blue.plugin)
      blue.rides(scope)
    },
    { prefix: '/blue' },
  )
  const url = await listen(app)

  const inRed = await send(url, { path: '/red/rides', body })
  expect(inRed.status).toBe(201)
  expect([await red.counts(), await blue.counts()]).toEqual([
    { keys: 1, charges: 1 },
    { keys: 0, charges: 0 },
  ])

  const noKey = await send(url, { path: '/blue/rides', body })
  expect(noKey.status).toBe(400)
  expect(read(noKey.body)).toMatchObject({
    error: { type: 'invalid_request_error', code: 'idempotency_key_missing' },
  })
  const headers = { 'x-request-key': 'k1' }
  const inBlue = await send(url, { path: '/blue/rides', body, headers })
  expect(inBlue.status).toBe(201)
  expect(inBlue.body).not.toEqual(inRed.body)
  const replays = [
    await send(url, { path: '/red/rides', body }),
    await send(url, { path: '/blue/rides', body, headers }),
  ]
  expect(replays.map((replay) => replay.body)).toEqual([inRed.body, inBlue.body])
  expect(replays[0]?.headers).toMatchObject({ 'idempotency-replayed': 'true' })
  expect(replays[1]?.headers).toMatchObject({ 'idempotent-replayed': 'true', 'x-request-key': 'k1' })
  expect([await red.counts(), await blue.counts()]).toEqual([
    { keys: 1, charges: 1 },
    { keys: 1, charges: 1 },
  ])
})

test('where the plugin is registered at the root and in a child, the nearest registration counts', async () => {
  const outer = await company()
  const inner = await company({ profile: 'stripe' })
  const app = emptyApp()
  await app.register(fastifyPawl, outer.plugin)
  outer.rides(app)
  await app.register(
    async (scope) => {
      outer.rides(scope, '/before')
      await scope.register(fastifyPawl, inner.plugin)
      inner.rides(scope)
      // A child of the child does not register it again.
      await scope.register(async (deeper) => inner.rides(deeper, '/deeper'))
    },
    { prefix: '/inner' },
  )
  const url = await listen(app)
  const sendTo = (path: string, key: string) => send(url, { path, body, headers: { 'idempotency-key': key } })

  expect((await sendTo('/rides', 'k1')).status).toBe(201)
  expect((await sendTo('/inner/before', 'k2')).status).toBe(201)
  expect([await outer.counts(), await inner.counts()]).toEqual([
    { keys: 2, charges: 2 },
    { keys: 0, charges: 0 },
  ])
  expect((await sendTo('/inner/rides', 'k1')).status).toBe(201)
  expect((await sendTo('/inner/deeper', 'k2')).status).toBe(201)
  expect([await outer.counts(), await inner.counts()]).toEqual([
    { keys: 2, charges: 2 },
    { keys: 2, charges: 2 },
  ])
  expect((await sendTo('/rides', 'k1')).headers).toMatchObject({ 'idempotency-replayed': 'true' })
  expect((await sendTo('/inner/deeper', 'k2')).headers).toMatchObject({ 'idempotent-replayed': 'true' })
  expect(app.idempotencyAudit().map((route) => route.url)).toEqual(['/rides', '/inner/before'])
})

test('closing the app closes all engines', async () => {
  const [outer, inner] = [await company(), await company()]
  const app = emptyApp()
  await app.register(fastifyPawl, outer.plugin)
  await app.register(async (scope) => {
    await scope.register(fastifyPawl, inner.plugin)
  })
  await app.ready()
  await app.close()
  for (const { engine } of [outer, inner]) {
    expect(await engine.resume('00000000-0000-4000-8000-000000000000')).toMatchObject({
      type: 'unavailable',
      error: { code: 'PAWL_CLOSING' },
    })
  }
})

test('registering the plugin twice on one instance is refused', async () => {
  const { plugin } = await company()
  const app = emptyApp()
  await app.register(fastifyPawl, plugin)
  await expect(async () => app.register(fastifyPawl, plugin)).rejects.toMatchObject({
    code: 'PAWL_INVALID_OPTION',
    message: expect.stringContaining('it is already registered on this instance') as string,
  })
})

test("routes outside of the plugin's scope know nothing of it", async () => {
  const { plugin } = await company()
  const app = emptyApp()
  await app.register(async (scope) => {
    await scope.register(fastifyPawl, plugin)
  })
  app.post('/outside', (request) => ({ pawl: request.pawl === undefined, atomic: 'atomic' in app }))
  const answer = await send(await listen(app), { path: '/outside', body })
  expect(read(answer.body)).toEqual({ pawl: true, atomic: false })
})

test('a route that is not marked gets an error that says so when it uses request.pawl or request.tx', async () => {
  const { plugin, counts } = await company()
  const app = emptyApp()
  await app.register(fastifyPawl, plugin)
  app.post('/plain', (request) => request.pawl.key)
  app.post('/exempt', { idempotency: { exempt: 'it only reads' } }, (request) => request.tx)
  const url = await listen(app)
  for (const path of ['/plain', '/exempt']) {
    const answer = await send(url, { path, body })
    expect(answer.status).toBe(500)
    expect(read(answer.body)).toMatchObject({
      code: 'PAWL_ROUTE_NOT_MARKED',
      message: expect.stringContaining(`POST ${path} has no idempotency option`) as string,
    })
  }
  expect(await counts()).toEqual({ keys: 0, charges: 0 })
})

test('a route that was declared before the plugin was loaded gets an error that says so when it uses request.pawl', async () => {
  const { plugin, rides, counts } = await company()
  const app = emptyApp()
  // Somebody forgot to await this: the plugin is loaded after the route.
  void app.register(fastifyPawl, plugin)
  rides(app)
  const answer = await send(await listen(app), { body })
  expect(answer.status).toBe(500)
  expect(read(answer.body)).toMatchObject({
    code: 'PAWL_ROUTE_NOT_MARKED',
    message: expect.stringContaining('await app.register(fastifyPawl, …) before it') as string,
  })
  expect(await counts()).toEqual({ keys: 0, charges: 0 })
})
