import type { FastifyInstance, FastifyRequest, RouteShorthandOptions } from 'fastify'
import { describe, expect, test } from 'vitest'
import { ask, completerOf, sendAsync } from '../support/async-app.js'
import { type RideApp, rideApp, type RideAppOptions } from '../support/ride-app.js'
import { codeOf, plain, runPlain } from '../support/plain-pipeline.js'

const plugin = { respondAsync: true }

/** An app whose routes have a hook of their own, which refuses everybody in `barred`. */
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
        runPlain,
      )
    },
    { plugin: { respondAsync } },
  )

/** An app of one tenant, in which each member may use only their own ride. */
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
        runPlain,
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

describe('whoever has lost the right to send a request cannot see what became of it', () => {
  test('if a hook of the route refuses them', async () => {
    const { app, engine, barred } = await guarded((server, guard) => {
      server.post('/guarded', { ...guard, idempotency: true }, runPlain)
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

  test('if a hook of a child instance refuses them', async () => {
    const { app, engine, barred } = await guarded((server, { preHandler }) => {
      void server.register(
        async (child) => {
          child.addHook('preHandler', preHandler as never)
          child.post('/rides', { idempotency: true }, runPlain)
        },
        { prefix: '/admin' },
      )
    })
    const accepted = await sendAsync(app, { url: '/admin/rides' })
    await completerOf(engine).runOnce()
    barred.add('ann')
    expect((await ask(app, accepted)).statusCode).toBe(403)
  })

  test('if a hook refuses them that reads the parameters, configuration or host of the route', async () => {
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
        runPlain,
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
      server.post('/guarded', { ...guard, idempotency: true }, runPlain)
      server.put('/guarded', { idempotency: { respondAsync: 'preferred' } }, runPlain)
      server.post('/open', { idempotency: true }, runPlain)
      server.post('/open/:id', { idempotency: true }, runPlain)
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
      expect(codeOf(await ask(app, accepted, { url }))).toEqual([404, 'request_not_found'])
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
      expect(codeOf(await ask(app, accepted, { url, ...ofBob }))).toEqual([404, 'request_not_found'])
  })

  test('at the same address, if the server rewrites it to another ride', async () => {
    const { app } = await ridesOfMembers({
      rewriteUrl: ({ url = '', headers }) => url.replace('/mine', `/rides/${String(headers['x-ride'])}`),
    })
    const ofAnn = { headers: { 'x-ride': 'ride1' } }
    const accepted = await sendAsync(app, { url: '/mine/pay', ...ofAnn })
    expect((await ask(app, accepted, ofAnn)).statusCode).toBe(202)
    const ofBob = { headers: { authorization: 'Bearer bob', 'x-ride': 'ride2' } }
    expect(codeOf(await ask(app, accepted, ofBob))).toEqual([404, 'request_not_found'])
  })

  test('if a hook decides by the body: nobody can see it, unless authorize allows it', async () => {
    let asked: unknown = null
    let allowed: unknown = true
    const without = await withBodyHook(true)
    const refused = await ask(without.app, await sendAsync(without.app, { url: '/limited' }))
    expect(codeOf(refused)).toEqual([500, 'internal_error'])
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
      expect(codeOf(await ask(app, accepted))).toEqual([404, 'request_not_found'])
  })

  test('if authorize throws, and the application answers the error', async () => {
    const { app } = await rideApp({ plugin: { respondAsync: { authorize: forbid } } })
    expect((await ask(app, await sendAsync(app))).statusCode).toBe(403)
  })
})
