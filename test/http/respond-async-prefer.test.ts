import type { FastifyPawlOptions, IdempotencyOptions } from '@pawl/fastify'
import fastifyPawl from '@pawl/fastify'
import swagger from '@fastify/swagger'
import Fastify from 'fastify'
import { describe, expect, onTestFinished, test } from 'vitest'
import { readPrefer } from '../../packages/fastify-adapter/src/read-prefer.js'
import { PREFER, sendAsync } from '../support/async-app.js'
import { listen, openSocket } from '../support/http-client.js'
import { audit, keyRows, send } from '../support/http-requests.js'
import { idleEngine } from '../support/idle-engine.js'
import { rideApp } from '../support/ride-app.js'

const plugin = { respondAsync: true }

describe('the Prefer header', () => {
  test.each([
    ['respond-async', 0],
    ['Respond-Async', 0],
    [' respond-async ', 0],
    ['respond-async, wait=10', 10_000],
    ['wait=10, respond-async', 10_000],
    ['respond-async,wait=10', 10_000],
    ['respond-async ,\twait = 10', 10_000],
    ['respond-async; foo=bar; wait=3', 0],
    ['respond-async;', 0],
    ['respond-async=""', 0],
    ['respond-async; x="a, b"; y, WAIT="7"', 7_000],
    ['return=minimal, respond-async, handling=lenient', 0],
    ['foo="bar, baz", respond-async', 0],
    ['foo="say \\"hi, you\\"", respond-async', 0],
    [', ,respond-async,,', 0],
    ['respond-async, wait=5, wait=50', 5_000],
    ['respond-async, respond-async=no', 0],
    ['respond-async, wait=0', 0],
    ['respond-async, wait=-1', 0],
    ['respond-async, wait=1.5', 0],
    ['respond-async, wait=soon', 0],
    ['respond-async, wait=5=6', 0],
    ['respond-async, wait', 0],
  ])('%s asks to wait for at most %i ms', (header, waitMs) => {
    expect(readPrefer(header)).toEqual({ respondAsync: true, waitMs })
  })

  test.each([
    '',
    'wait=10',
    'return=minimal',
    'respond-asynchronously',
    'respond-async=false',
    '"respond-async"',
    'foo="respond-async"',
    'foo="bar, respond-async"',
    'foo="bar, respond-async',
    'foo="bar\\", respond-async',
    'foo; respond-async',
    'respond async',
    'respond-async=no, respond-async',
  ])('%s does not ask for an early answer', (header) => {
    expect(readPrefer(header)).toMatchObject({ respondAsync: false })
  })

  test('may be missing, or sent several times', () => {
    expect(readPrefer(undefined)).toEqual({ respondAsync: false, waitMs: 0 })
    expect(readPrefer(['return=minimal', 'wait=2', 'respond-async'])).toEqual({
      respondAsync: true,
      waitMs: 2_000,
    })
  })

  test.each(['"\\', '\\"', '=', ' ', ',;', '"', 'a= '])(
    'any amount of %j is read, and means nothing',
    (piece) => {
      // A pattern that backtracks would run until the test times out.
      expect(readPrefer(`${piece.repeat(400_000)}x`)).toEqual({ respondAsync: false, waitMs: 0 })
    },
  )
})

test('several Prefer headers on the wire are read as one list', async () => {
  const { app } = await rideApp({ plugin })
  const socket = await openSocket(await listen(app))
  onTestFinished(() => void socket.destroy())
  const lines = [
    'POST /rides HTTP/1.1',
    'host: rides.test',
    'connection: close',
    'authorization: Bearer ann',
    'idempotency-key: k1',
    'prefer: return=minimal',
    'content-type: application/json',
    'PREFER: foo="a, b", Respond-Async;x=y',
    'content-length: 13',
    '',
    '{"amount":20}',
  ]
  socket.write(lines.join('\r\n'))
  const answer = (await socket.toArray()).map(String).join('')
  expect(answer).toMatch(/^HTTP\/1\.1 202 /)
  expect(answer).toMatch(/^preference-applied: respond-async\r$/m)
})

/** A request that asks for 202, and one that does not. */
const both = async (route: IdempotencyOptions | undefined, options: Partial<FastifyPawlOptions> = plugin) => {
  const { app } = await rideApp({ plugin: options, ...(route && { route }) })
  const asked = await sendAsync(app)
  const plain = await send(app, { headers: { 'idempotency-key': 'k2' } })
  return { asked, plain }
}

describe('a route', () => {
  test.each([undefined, { respondAsync: 'preferred' }] as const)(
    'heeds the preference: %j',
    async (route) => {
      const { asked, plain } = await both(route)
      expect([asked.statusCode, plain.statusCode]).toEqual([202, 201])
      expect(asked.headers).toMatchObject({ 'preference-applied': 'respond-async', vary: 'Prefer' })
      expect(plain.headers).toMatchObject({ vary: 'Prefer' })
      expect(plain.headers['preference-applied']).toBeUndefined()
    },
  )

  test('may always answer early', async () => {
    const { asked, plain } = await both({ respondAsync: 'always' })
    expect([asked.statusCode, plain.statusCode]).toEqual([202, 202])
    expect(asked.headers['preference-applied']).toBe('respond-async')
    expect(plain.headers['preference-applied']).toBeUndefined()
    // `wait` decides whether the answer is 202 or the response.
    expect([asked.headers['vary'], plain.headers['vary']]).toEqual(['Prefer', 'Prefer'])
  })

  test('may never answer early', async () => {
    const { asked, plain } = await both({ respondAsync: 'never' })
    expect([asked.statusCode, plain.statusCode]).toEqual([201, 201])
    expect(asked.headers['preference-applied']).toBeUndefined()
    expect(asked.headers['vary']).toBeUndefined()
  })

  test.each([undefined, false])(
    'does not answer early if the plugin has respondAsync: %s',
    async (respondAsync) => {
      const options = respondAsync === undefined ? {} : { respondAsync }
      const { asked } = await both(undefined, options)
      expect(asked.statusCode).toBe(201)
      expect(asked.headers['vary']).toBeUndefined()
    },
  )

  test('that is atomic runs at once in any case', async () => {
    const { app, database } = await rideApp({
      plugin,
      routes: (server) =>
        void server.post('/notes', { idempotency: { atomic: true } }, async ({ tx }) => {
          await tx.insertInto('audit').values({ what: 'noted' }).execute()
          return { noted: true }
        }),
    })
    const noted = await sendAsync(app, { url: '/notes' })
    expect([noted.statusCode, noted.headers['vary']]).toEqual([200, undefined])
    expect(await audit(database)).toEqual(['noted'])
  })

  test('keeps what hooks put in Vary', async () => {
    for (const [given, vary] of [
      ['Origin', 'Origin, Prefer'],
      ['prefer, Origin', 'prefer, Origin'],
      ['*', '*'],
    ] as const) {
      const { app } = await rideApp({
        plugin,
        before: (server) =>
          void server.addHook('onRequest', async (_request, reply) => void reply.header('vary', given)),
      })
      expect((await sendAsync(app)).headers['vary']).toBe(vary)
    }
  })
})

test('the audit does not list the status', async () => {
  const { app, database } = await rideApp({ plugin: { ...plugin, enforce: 'error' } })
  expect(app.idempotencyAudit()).toEqual([{ method: 'POST', url: '/rides', key: 'required', reason: null }])
  expect(await keyRows(database)).toEqual([])
})

/** The error for such options, or `taken`. */
async function register(options: unknown, route: unknown = true, prefix = '/'): Promise<string> {
  const app = Fastify()
  onTestFinished(() => app.close())
  try {
    await app.register(
      async (child) => {
        const engine = idleEngine()
        const given = options === undefined ? {} : { respondAsync: options as boolean }
        await child.register(fastifyPawl, { engine, scope: () => 'ann', ...given })
        child.post('/a', { idempotency: route as boolean }, async () => null)
      },
      { prefix },
    )
    await app.ready()
    return 'taken'
  } catch (error) {
    return (error as Error).message
  }
}

describe('options that make no sense are refused when they are declared', () => {
  test.each([
    ['yes', /respondAsync is 'yes'; it takes true, false or an object/],
    [{ path: '/a' }, /respondAsync: unknown option 'path'/],
    [{ statusPath: 'operations' }, /statusPath is 'operations'; it takes a path such as/],
    [{ statusPath: '/operations/' }, /statusPath/],
    [{ statusPath: '/operations/:id' }, /statusPath/],
    [{ statusPath: '/*' }, /statusPath/],
    [{ statusPath: '/../operations' }, /statusPath is '\/..\/operations'; it takes a path such as/],
    [{ statusPath: '/operations/..' }, /statusPath/],
    [{ statusPath: '/./operations' }, /statusPath/],
    [{ statusPath: '/.' }, /statusPath/],
    [{ statusPath: 1 }, /statusPath/],
    [{ maxWaitMs: -1 }, /maxWaitMs is -1; it takes a whole number of 0 or more/],
    [{ maxWaitMs: 600_001 }, /maxWaitMs is 600001; it takes at most 600000/],
    [{ onRequest: 'auth' }, /onRequest is 'auth'; it takes a function/],
    [{ onRequest: [null] }, /onRequest is null; it takes a function/],
    [{ authorize: true }, /authorize is true; it takes a function/],
    [{ statusPath: '/operations', maxWaitMs: 0, onRequest: [], authorize: () => true }, /taken/],
    [{ statusPath: '/.well-known/...and/v1..' }, /taken/],
  ])('by the plugin: %j', async (options, message) => {
    expect(await register(options)).toMatch(message)
  })

  test('by a route whose address can have nothing below it', async () => {
    const app = Fastify()
    onTestFinished(() => app.close())
    await app.register(fastifyPawl, { engine: idleEngine(), scope: () => 'ann', ...plugin })
    for (const url of ['/files/*', '/files/:name?']) {
      const declare = (respondAsync?: 'always') =>
        app.post(url, { idempotency: respondAsync === undefined ? true : { respondAsync } }, async () => null)
      expect(() => declare('always')).toThrow(/takes only 'never' on a route that ends with a wildcard/)
      declare()
    }
    await app.ready()
    expect(app.printRoutes()).not.toContain('idempotent-requests')
  })

  test.each([
    [
      true,
      { respondAsync: 'sometimes' },
      /respondAsync is 'sometimes'; it takes one of 'always', 'preferred'/,
    ],
    [true, { respondAsync: true }, /respondAsync is true/],
    [true, { respondAsync: 'always', atomic: true }, /'always'; it takes only 'never' on an atomic route/],
    [true, { respondAsync: 'preferred', atomic: {} }, /only 'never' on an atomic route/],
    [true, { respondAsync: 'never', atomic: true }, /taken/],
    [
      undefined,
      { respondAsync: 'always' },
      /Give register\(fastifyPawl\) respondAsync: true, and run a completer/,
    ],
    [false, { respondAsync: 'preferred' }, /Give register\(fastifyPawl\) respondAsync: true/],
    [undefined, { respondAsync: 'never' }, /taken/],
  ])('by a route: %s, %j', async (options, route, message) => {
    expect(await register(options, route)).toMatch(message)
  })
})

describe('OpenAPI', () => {
  async function document(): Promise<Record<string, Record<string, Operation>>> {
    const app = Fastify()
    onTestFinished(() => app.close())
    await app.register(swagger, { openapi: { info: { title: 'Rides', version: '1.0.0' } } })
    await app.register(fastifyPawl, { engine: idleEngine(), scope: () => 'ann', ...plugin })
    app.post('/preferred', { idempotency: true }, async () => null)
    app.post('/always', { idempotency: { respondAsync: 'always' } }, async () => null)
    app.post('/never', { idempotency: { respondAsync: 'never' } }, async () => null)
    await app.ready()
    return (app.swagger() as unknown as { paths: Record<string, Record<string, Operation>> }).paths
  }
  interface Operation {
    readonly parameters?: readonly {
      readonly name: string
      readonly in: string
      readonly required?: boolean
    }[]
    readonly responses: Record<string, { readonly description: string; readonly content?: object }>
  }
  const preferOf = ({ parameters = [] }: Operation | undefined = { responses: {} }) =>
    parameters.filter(({ name }) => name === 'prefer').map(({ required = false }) => required)

  test('documents the preference and 202 for routes that heed them', async () => {
    const paths = await document()
    const [preferred, always, never] = ['/preferred', '/always', '/never'].map((url) => paths[url]?.['post'])
    expect([preferOf(preferred), preferOf(always), preferOf(never)]).toEqual([[false], [], []])
    expect(Object.keys(preferred?.responses ?? {})).toContain('202')
    expect(Object.keys(always?.responses ?? {})).toContain('202')
    expect(Object.keys(never?.responses ?? {})).not.toContain('202')
  })

  test('documents the status with its parameter and its answers', async () => {
    const status = (await document())['/preferred/idempotent-requests/{pawlKeyId}']?.['get']
    expect(status?.parameters).toMatchObject([{ name: 'pawlKeyId', in: 'path', required: true }])
    expect(Object.keys(status?.responses ?? {}).toSorted()).toEqual(['202', '2XX', '404', '500', '503'])
    for (const { description } of Object.values(status?.responses ?? {})) expect(description).not.toBe('')
  })
})

test('requests that differ only in their preference are the same', async () => {
  const { app, database } = await rideApp({ plugin })
  await sendAsync(app)
  await sendAsync(app, { headers: { prefer: `${PREFER.prefer}, wait=0; x=y` } })
  expect((await send(app)).statusCode).toBe(201)
  expect(await keyRows(database)).toHaveLength(1)
})
