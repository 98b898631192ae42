import type { FastifyPawlOptions } from '@pawl/fastify'
import type { FastifyInstance, preHandlerAsyncHookHandler } from 'fastify'
import { expect, test } from 'vitest'
import { keyRows, send, sendWithoutKey } from '../support/http-requests.js'
import { type RideApp, rideApp } from '../support/ride-app.js'
import { appOf, scripted, TARGET } from '../support/scripted-app.js'

type Scope = FastifyPawlOptions['scope']

const as = (user: string) => ({ headers: { authorization: `Bearer ${user}` } })

// Shows I11.
test('the same key of two tenants is two requests, and neither sees the response of the other', async () => {
  const { app, database, provider } = await rideApp()
  const [ann, bob] = [await send(app, as('ann')), await send(app, as('bob'))]
  expect([ann.statusCode, bob.statusCode]).toEqual([201, 201])
  expect(bob.headers).not.toHaveProperty('idempotency-replayed')
  expect(bob.json()).not.toEqual(ann.json())
  expect((await send(app, as('ann'))).rawPayload).toEqual(ann.rawPayload)
  expect((await send(app, as('bob'))).rawPayload).toEqual(bob.rawPayload)
  expect(await keyRows(database)).toMatchObject([
    { scope: 'ann', key: 'k1' },
    { scope: 'bob', key: 'k1' },
  ])
  expect(await provider.ledger()).toHaveLength(2)
})

test('another request of another tenant under the same key is neither a mismatch nor a conflict', async () => {
  const { app, provider } = await rideApp()
  await provider.willMeet('hold_then_execute')
  const ann = send(app, as('ann'))
  await provider.arrived()
  expect((await send(app, { ...as('bob'), payload: { amount: 21 } })).statusCode).toBe(201)
  await provider.letGo()
  expect((await ann).statusCode).toBe(201)
})

test.each(['account', 'route'] as const)(
  'with keyScope %s, no spelling of key and tenant makes two requests one',
  async (keyScope) => {
    const { app, database } = await appOf(scripted([]), { plugin: { keyScope } })
    const pairs = [
      ['ann', 'b k1'],
      ['ann b', 'k1'],
      ['annb', ' k1'],
      ['ann', '"POST /target"'],
      ['ann', 'POST /target k1'],
    ] as const
    for (const [user, key] of pairs) {
      const headers = { authorization: `Bearer ${user}`, 'idempotency-key': key }
      const first = await send(app, { ...TARGET, headers })
      expect(first.statusCode).toBe(201)
      expect(first.headers).not.toHaveProperty('idempotency-replayed')
    }
    expect(await keyRows(database)).toHaveLength(pairs.length)
  },
)

test('a user whose access was revoked gets no replay', async () => {
  const { app, revoked } = await rideApp()
  const first = await send(app)
  expect((await send(app)).headers['idempotency-replayed']).toBe('true')
  revoked.add('ann')
  const refused = await send(app)
  expect(refused.statusCode).toBe(401)
  expect(refused.json()).toEqual({ error: 'who are you?' })
  expect(refused.headers).not.toHaveProperty('idempotency-replayed')
  expect(refused.body).not.toContain(first.json<{ id: string }>().id)
})

test('nothing is looked up or reserved for a request that is not authenticated, whatever its key', async () => {
  let asked = 0
  const scope: Scope = ({ user }) => {
    asked++
    return user
  }
  const { app, database } = await rideApp({ plugin: { scope } })
  for (const key of ['k1', '', 'a, b', 'k'.repeat(256)]) {
    const headers = { authorization: '', 'idempotency-key': key }
    expect((await send(app, { headers })).statusCode).toBe(401)
  }
  expect(asked).toBe(0)
  expect(await keyRows(database)).toEqual([])
})

const from = (tenant: string) => ({ ...TARGET, headers: { 'x-tenant': tenant } })

/** An app whose `/target` learns its tenant after validation, from a hook of the route or of its plugin. */
async function lateApp(where: 'route' | 'instance', revoked: Set<string>): Promise<RideApp> {
  const target = scripted([])
  const identify: preHandlerAsyncHookHandler = async (request, reply) => {
    const { 'x-tenant': tenant } = request.headers
    if (typeof tenant !== 'string' || revoked.has(tenant))
      return reply.code(401).send({ error: 'which tenant?' })
    // This ends later than whatever comes right after the hook would, so that nothing can rely on being quick.
    await new Promise(setImmediate)
    request.user = tenant
    return undefined
  }
  const route = (app: FastifyInstance) =>
    void app.post(
      '/target',
      { idempotency: true, ...(where === 'route' ? { preHandler: identify } : {}) },
      (request) => request.pawl.run(target, null),
    )
  return rideApp({
    pipelines: [target],
    routes: (app) =>
      void app.register(async (inner) => {
        route(inner)
        // This holds even for a hook that is added after the route.
        if (where === 'instance') inner.addHook('preHandler', identify)
      }),
  })
}

test.each(['route', 'instance'] as const)(
  'a tenant that a preHandler of the %s identifies is known in time, and can be refused before any key is read',
  async (where) => {
    const revoked = new Set<string>()
    const { app, database } = await lateApp(where, revoked)
    expect((await sendWithoutKey(app, TARGET)).statusCode).toBe(401)
    expect((await send(app, { ...TARGET, headers: { 'idempotency-key': 'a, b' } })).statusCode).toBe(401)
    expect(await keyRows(database)).toEqual([])
    expect((await send(app, from('one'))).statusCode).toBe(201)
    expect((await send(app, from('two'))).headers).not.toHaveProperty('idempotency-replayed')
    expect((await send(app, from('one'))).headers['idempotency-replayed']).toBe('true')
    expect(await keyRows(database)).toMatchObject([{ scope: 'one' }, { scope: 'two' }])
    revoked.add('one')
    expect((await send(app, from('one'))).statusCode).toBe(401)
  },
)

test.each<[string, Scope]>([
  ['null', () => null],
  ['undefined', () => undefined],
  ['an empty string', () => ''],
  ['a promise of null', async () => null],
  // A caller without types may do this.
  ['a number', (() => 7) as unknown as Scope],
])('a scope function that returns %s fails closed, and only the log says why', async (_, scope) => {
  const { app, database, provider, log } = await rideApp({ plugin: { scope } })
  const failed = await send(app)
  expect(failed.statusCode).toBe(500)
  expect(failed.headers['content-type']).toBe('application/problem+json')
  expect(failed.json()).toMatchObject({ code: 'internal_error' })
  expect(failed.body).not.toMatch(/PAWL_|scope/)
  const err = expect.objectContaining({ code: 'PAWL_NO_SCOPE' }) as object
  expect(log).toContainEqual(expect.objectContaining({ level: 50, err }))
  expect(await keyRows(database)).toEqual([])
  expect(await provider.requests()).toEqual([])
})

test.each<[string, Scope]>([
  [
    'throws',
    () => {
      throw Object.assign(new Error('not of this tenant'), { statusCode: 403 })
    },
  ],
  [
    'rejects',
    async () => Promise.reject(Object.assign(new Error('not of this tenant'), { statusCode: 403 })),
  ],
])("a scope function that %s answers as the application's other errors do", async (_, scope) => {
  const { app, database } = await rideApp({ plugin: { scope } })
  const refused = await send(app)
  expect(refused.statusCode).toBe(403)
  expect(refused.json()).toMatchObject({ message: 'not of this tenant' })
  expect(await keyRows(database)).toEqual([])
})

const accountOf: Scope = async ({ user }) => {
  await new Promise(setImmediate)
  return `account of ${user}`
}

test('a scope function may be asynchronous, and ask elsewhere first', async () => {
  const { app, database } = await rideApp({ plugin: { scope: accountOf } })
  expect((await send(app)).statusCode).toBe(201)
  expect((await send(app)).headers['idempotency-replayed']).toBe('true')
  expect(await keyRows(database)).toMatchObject([{ scope: 'account of ann' }])
})
