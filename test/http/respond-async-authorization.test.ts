import { randomUUID } from 'node:crypto'
import { respond } from '@pawl/core'
import fastifyPawl from '@pawl/fastify'
import type { FastifyInstance, FastifyRequest, LightMyRequestResponse, RouteShorthandOptions } from 'fastify'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ask, completerOf, sendAsync } from '../support/async-app.js'
import { audit, keyRows } from '../support/http-requests.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { type RideApp, rideApp, type RideAppOptions } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'

const plugin = { respondAsync: true }
const plain = pipeline<null>({ name: 'plain', version: 1 }).finish(() => respond(201, { secret: 42 }))

/** An app whose routes have a hook of their own that lets nobody in who is on the list. */
async function guarded(
  declare: (app: FastifyInstance, guard: RouteShorthandOptions) => void | Promise<void>,
  options: RideAppOptions = {},
): Promise<RideApp & { readonly barred: Set<string> }> {
  const barred = new Set<string>()
  const preHandler: RouteShorthandOptions['preHandler'] = async (request, reply) => {
    if (barred.has(request.user ?? '')) return reply.code(403).send({ error: 'not you' })
    return undefined
  }
  const app = await rideApp({
    plugin,
    pipelines: [plain],
    routes: (server) => declare(server, { preHandler }),
    ...options,
  })
  return { ...app, barred }
}

const run = (request: FastifyRequest) => request.pawl.run(plain, null)

function code(response: LightMyRequestResponse): unknown {
  return [response.statusCode, response.json<{ code?: string }>().code]
}

const withBodyHook = (respondAsync: true | object) =>
  guarded(
    (server) => {
      server.post<{ Body: { amount: number } }>(
        '/limited',
        {
          preHandler: async (request, reply) =>
            request.body?.amount > 100 ? reply.code(403).send('') : undefined,
          idempotency: true,
        },
        run,
      )
    },
    { plugin: { respondAsync } },
  )

/** An app of one tenant, whose members may each use a ride of their own. */
const ridesOfMembers = (server: NonNullable<RideAppOptions['server']> = {}) =>
  guarded(
    (app) => {
      const rides = new Map([
        ['ann', 'ride1'],
        ['bob', 'ride2'],
      ])
      app.post<{ Params: { ride: string } }>(
        '/rides/:ride/pay',
        {
          preHandler: async (request, reply) =>
            rides.get(request.user ?? '') === request.params.ride ? undefined : reply.code(403).send(''),
          idempotency: true,
        },
        run,
      )
    },
    {
      plugin: { ...plugin, scope: () => 'tenant' },
      server: { routerOptions: { ignoreTrailingSlash: true, ignoreDuplicateSlashes: true }, ...server },
    },
  )

const forbid = () => {
  throw Object.assign(new Error('not you'), { statusCode: 403 })
}

const tenantOf = (request: FastifyRequest) => `tenant ${(request.params as { t: string }).t}`

describe('whoever lost the right to send a request is not told what became of it', () => {
  test('by a hook of the route', async () => {
    const { app, engine, barred } = await guarded((server, guard) => {
      server.post('/guarded', { ...guard, idempotency: true }, run)
    })
    const accepted = await sendAsync(app, { url: '/guarded' })
    expect((await ask(app, accepted)).statusCode).toBe(202)
    barred.add('ann')
    expect((await ask(app, accepted)).statusCode).toBe(403)
    await completerOf(engine).runOnce()
    expect((await sendAsync(app, { url: '/guarded' })).statusCode).toBe(403)
    const refused = await ask(app, accepted)
    expect([refused.statusCode, refused.payload]).toEqual([403, '{"error":"not you"}'])
    expect((await ask(app, accepted, { method: 'HEAD' })).statusCode).toBe(403)
    barred.clear()
    expect((await ask(app, accepted)).json()).toEqual({ secret: 42 })
  })

  test('by a hook of an instance further in', async () => {
    const { app, engine, barred } = await guarded((server, { preHandler }) => {
      void server.register(
        async (child) => {
          child.addHook('preHandler', preHandler as never)
          child.post('/rides', { idempotency: true }, run)
        },
        { prefix: '/admin' },
      )
    })
    const accepted = await sendAsync(app, { url: '/admin/rides' })
    await completerOf(engine).runOnce()
    barred.add('ann')
    expect((await ask(app, accepted)).statusCode).toBe(403)
  })

  test('by a hook that looks at parameters, the configuration or the host of the route', async () => {
    const members = new Set(['7'])
    const { app, engine } = await guarded((server) => {
      server.post<{ Params: { account: number } }>(
        '/accounts/:account/rides',
        {
          schema: { params: { type: 'object', properties: { account: { type: 'integer' } } } },
          config: { role: 'member' } as never,
          constraints: { host: 'api.test' },
          preHandler: async (request, reply) => {
            const { role } = request.routeOptions.config as unknown as { role?: string }
            const { account } = request.params
            if (role !== 'member' || typeof account !== 'number' || !members.has(String(account)))
              return reply.code(403).send('')
            return undefined
          },
          idempotency: true,
        },
        run,
      )
    })
    const headers = { host: 'api.test' }
    const accepted = await sendAsync(app, { url: '/accounts/7/rides?x=1', headers })
    expect(accepted.headers['location']).toMatch(/^\/accounts\/7\/rides\/idempotent-requests\/[0-9a-f-]{36}$/)
    await completerOf(engine).runOnce()
    expect((await ask(app, accepted, { headers })).statusCode).toBe(201)
    members.clear()
    expect((await ask(app, accepted, { headers })).statusCode).toBe(403)
  })

  test('at the address of another route that they may still use', async () => {
    const { app, engine, barred } = await guarded((server, guard) => {
      server.post('/guarded', { ...guard, idempotency: true }, run)
      server.put('/guarded', { idempotency: { respondAsync: 'preferred' } }, run)
      server.post('/open', { idempotency: true }, run)
      server.post('/open/:id', { idempotency: true }, run)
    })
    const accepted = await sendAsync(app, { url: '/guarded' })
    await completerOf(engine).runOnce()
    barred.add('ann')
    const [, id = ''] = /([^/]+)$/.exec(String(accepted.headers['location'])) ?? []
    for (const url of [
      `/open/idempotent-requests/${id}`,
      `/guarded/idempotent-requests/put/${id}`,
      `/open/1/idempotent-requests/${id}`,
    ])
      expect(code(await ask(app, accepted, { url }))).toEqual([404, 'request_not_found'])
    const ofOpen = await sendAsync(app, { url: '/open', headers: { 'idempotency-key': 'k2' } })
    expect((await ask(app, ofOpen)).statusCode).toBe(202)
    const ofPut = await sendAsync(app, {
      method: 'PUT',
      url: '/guarded',
      headers: { 'idempotency-key': 'k3' },
    })
    expect((await ask(app, ofPut)).statusCode).toBe(202)
  })

  test('at the address of another ride of the same route, which a hook lets them use', async () => {
    const { app, engine } = await ridesOfMembers()
    const accepted = await sendAsync(app, { url: '/rides/ride1/pay' })
    await completerOf(engine).runOnce()
    expect((await ask(app, accepted)).json()).toEqual({ secret: 42 })
    const ofBob = { headers: { authorization: 'Bearer bob' } }
    expect((await ask(app, accepted, ofBob)).statusCode).toBe(403)
    const own = String(accepted.headers['location']).replace('ride1', 'ride2')
    for (const url of [own, `${own}/`, own.replace('/rides', '//rides'), own.replace('ride2', '%72ide2')])
      expect(code(await ask(app, accepted, { url, ...ofBob }))).toEqual([404, 'request_not_found'])
  })

  test('at the address of another ride that the server made of the same one', async () => {
    const { app } = await ridesOfMembers({
      rewriteUrl: ({ url = '', headers }) => url.replace('/mine', `/rides/${String(headers['x-ride'])}`),
    })
    const ofAnn = { headers: { 'x-ride': 'ride1' } }
    const accepted = await sendAsync(app, { url: '/mine/pay', ...ofAnn })
    expect((await ask(app, accepted, ofAnn)).statusCode).toBe(202)
    const ofBob = { headers: { authorization: 'Bearer bob', 'x-ride': 'ride2' } }
    expect(code(await ask(app, accepted, ofBob))).toEqual([404, 'request_not_found'])
  })

  test('by a hook that decides by the body: nobody is told, unless authorize says who', async () => {
    let asked: unknown = null
    let allowed: unknown = true
    const without = await withBodyHook(true)
    const refused = await ask(without.app, await sendAsync(without.app, { url: '/limited' }))
    expect(code(refused)).toEqual([500, 'internal_error'])
    const err = expect.objectContaining({ code: 'PAWL_STATUS_NOT_AUTHORIZED' }) as unknown
    expect(without.log).toContainEqual(expect.objectContaining({ level: 50, err }))

    const authorize = (request: FastifyRequest, of: unknown) => {
      asked = [request.user, of]
      return allowed as boolean
    }
    const { app } = await withBodyHook({ authorize })
    const accepted = await sendAsync(app, { url: '/limited' })
    expect((await ask(app, accepted)).statusCode).toBe(202)
    const keyId = expect.any(String) as unknown
    expect(asked).toEqual(['ann', { keyId, scope: 'ann', pipeline: 'plain', route: 'POST /limited' }])
    for (allowed of [false, undefined, 'yes', 1])
      expect(code(await ask(app, accepted))).toEqual([404, 'request_not_found'])
  })

  test('by authorize that throws, as the application answers it', async () => {
    const { app } = await rideApp({ plugin: { respondAsync: { authorize: forbid } } })
    expect((await ask(app, await sendAsync(app))).statusCode).toBe(403)
  })
})

test('each registration answers with its own scope', async () => {
  const { app } = await rideApp({
    plugin,
    pipelines: [plain],
    routes: (server, engine) =>
      void server.register(
        async (child) => {
          await child.register(fastifyPawl, { engine, scope: tenantOf, respondAsync: true })
          child.post('/rides', { idempotency: true }, run)
        },
        { prefix: '/tenants/:t' },
      ),
  })
  const accepted = await sendAsync(app, { url: '/tenants/a/rides' })
  expect((await ask(app, accepted)).statusCode).toBe(202)
  const other = String(accepted.headers['location']).replace('/a/', '/b/')
  expect(code(await ask(app, accepted, { url: other }))).toEqual([404, 'request_not_found'])
})

test('an address that begins with two slashes leads to no other host', async () => {
  const { app } = await rideApp({ plugin, server: { routerOptions: { ignoreDuplicateSlashes: true } } })
  const accepted = await sendAsync(app, { url: '//rides' })
  expect(accepted.headers['location']).toMatch(/^\/rides\/idempotent-requests\//)
})

test("another's key costs what an unknown one costs: nothing of it travels", async () => {
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
  // The connection is opened by the first.
  await bytesFor({ url: unknown, ...ofBob })
  const notThere = await bytesFor({ url: unknown, ...ofBob })
  expect(await bytesFor(ofBob)).toEqual({ statusCode: 404, bytes: notThere.bytes })
  expect(notThere.bytes).toBeLessThan(4_096)
  const own = await bytesFor({})
  expect(own.statusCode).toBe(200)
  expect(own.bytes).toBeGreaterThan(1_900_000)
})

describe('a request whose sender has lost the right before it ran', () => {
  const barred = new Set<string>()
  const entered: string[] = []
  const guardedPipeline = pipeline<{ amount: number }>({
    name: 'guarded',
    version: 1,
    authorize: async ({ tx, scope, input }) => {
      entered.push(`${scope} ${input.amount}`)
      await tx.insertInto('audit').values({ what: 'asked' }).execute()
      return barred.has(scope) ? respond(403, { code: 'not_allowed' }) : undefined
    },
  })
    .local('written', async ({ tx }) => {
      await tx.insertInto('audit').values({ what: 'written' }).execute()
    })
    .finish(() => respond(201))
  const app = () =>
    rideApp({
      plugin,
      pipelines: [guardedPipeline],
      routes: (server) =>
        void server.post<{ Body: { amount: number } }>('/guarded', { idempotency: true }, (request) =>
          request.pawl.run(guardedPipeline, request.body),
        ),
    })

  test('is answered by authorize, and none of its phases runs', async () => {
    const trial = await app()
    const accepted = await sendAsync(trial.app, { url: '/guarded' })
    barred.add('ann')
    await completerOf(trial.engine).runOnce()
    barred.clear()
    expect(entered).toEqual(['ann 20'])
    // What it wrote is committed with the answer it gave.
    expect(await audit(trial.database)).toEqual(['asked'])
    const status = await ask(trial.app, accepted)
    expect([status.statusCode, status.json()]).toEqual([403, { code: 'not_allowed' }])
    expect(await keyRows(trial.database)).toMatchObject([{ status: 'finished', response_status: 403 }])
  })

  test('runs where authorize says nothing; a request that its client waits for is not asked about', async () => {
    entered.length = 0
    const trial = await app()
    const accepted = await sendAsync(trial.app, { url: '/guarded' })
    await completerOf(trial.engine).runOnce()
    expect((await ask(trial.app, accepted)).statusCode).toBe(201)
    expect(entered).toEqual(['ann 20'])
    expect(await audit(trial.database)).toEqual(['written'])
    const { statusCode } = await trial.app.inject({
      method: 'POST',
      url: '/guarded',
      headers: { authorization: 'Bearer ann', 'idempotency-key': 'k2' },
      payload: { amount: 1 },
    })
    expect(statusCode).toBe(201)
    expect(entered).toEqual(['ann 20'])
  })

  test('runs nothing while authorize fails', async () => {
    const failing = pipeline<null>({
      name: 'failing',
      version: 1,
      authorize: () => {
        throw new Error('no idea who that is')
      },
    })
      .local('written', async ({ tx }) => {
        await tx.insertInto('audit').values({ what: 'written' }).execute()
      })
      .finish(() => respond(201))
    const trial = await rideApp({
      plugin,
      pipelines: [failing],
      routes: (server) =>
        void server.post('/failing', { idempotency: true }, (request) => request.pawl.run(failing, null)),
    })
    await sendAsync(trial.app, { url: '/failing' })
    await completerOf(trial.engine).runOnce()
    expect(await audit(trial.database)).toEqual([])
    expect(await keyRows(trial.database)).toMatchObject([{ status: 'running', recovery_point: 'started' }])
  })
})
