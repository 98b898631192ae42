import { randomUUID } from 'node:crypto'
import { respond } from '@pawl/core'
import fastifyPawl from '@pawl/fastify'
import type { FastifyRequest } from 'fastify'
import { expect, onTestFinished, test } from 'vitest'
import { ask, completerOf, sendAsync } from '../support/async-app.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { rideApp } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'
import { codeOf, plain, runPlain } from '../support/plain-pipeline.js'

const plugin = { respondAsync: true }

const tenantOf = (request: FastifyRequest) => `tenant ${(request.params as { t: string }).t}`

test('each registration of the plugin answers by its own scope function', async () => {
  const { app } = await rideApp({
    plugin,
    pipelines: [plain],
    routes: (server, engine) =>
      void server.register(
        async (child) => {
          await child.register(fastifyPawl, { engine, scope: tenantOf, respondAsync: true })
          child.post('/rides', { idempotency: true }, runPlain)
        },
        { prefix: '/tenants/:t' },
      ),
  })
  const accepted = await sendAsync(app, { url: '/tenants/a/rides' })
  expect((await ask(app, accepted)).statusCode).toBe(202)
  const other = String(accepted.headers['location']).replace('/a/', '/b/')
  expect(codeOf(await ask(app, accepted, { url: other }))).toEqual([404, 'request_not_found'])
})

test("asking for another scope's request costs what an unknown one costs: nothing of it is read from the server", async () => {
  const large = pipeline<null>({ name: 'large', version: 1 }).finish(() =>
    respond(200, { text: 'x'.repeat(1_900_000) }),
  )
  const { app, engine, database } = await rideApp({
    plugin,
    pipelines: [large],
    routes: (server) =>
      void server.post('/large', { idempotency: true }, (request) => request.pawl.run(large, null)),
  })
  const accepted = await sendAsync(app, { url: '/large' })
  await completerOf(engine).runOnce()

  const proxy = await PostgresProxy.start(database.url)
  onTestFinished(() => proxy.close())
  const reader = await rideApp({
    beside: { database, provider: undefined as never },
    engine: { pool: database.pool({ connectionString: proxy.url, max: 1 }) },
    plugin,
    pipelines: [large],
    routes: (server) =>
      void server.post('/large', { idempotency: true }, (request) => request.pawl.run(large, null)),
  })
  const unknown = `/large/idempotent-requests/${randomUUID()}`
  const bytesFor = async (more: object) => {
    const before = proxy.bytesFromServer
    const { statusCode } = await ask(reader.app, accepted, more)
    return { statusCode, bytes: proxy.bytesFromServer - before }
  }
  const ofBob = { headers: { authorization: 'Bearer bob' } }
  // The first question opens the connection.
  await bytesFor({ url: unknown, ...ofBob })
  const notThere = await bytesFor({ url: unknown, ...ofBob })
  expect(await bytesFor(ofBob)).toEqual({ statusCode: 404, bytes: notThere.bytes })
  expect(notThere.bytes).toBeLessThan(4_096)
  const own = await bytesFor({})
  expect(own.statusCode).toBe(200)
  expect(own.bytes).toBeGreaterThan(1_900_000)
})
