import { once } from 'node:events'
import { createServer, request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import fastifyPawlConsole from '@pawl/console'
import Fastify from 'fastify'
import fastifyPawl from '@pawl/fastify'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { plainEngine } from './plain-engine.js'
import { TestDatabase } from '../support/test-database.js'
import { ConsoleClient, errorOf } from './console-client.js'
import { consoleOn, type TestConsole, USERS } from './console-on.js'

let database: TestDatabase
let console: TestConsole
beforeAll(async () => {
  database = await TestDatabase.create()
  console = await consoleOn(database)
})
afterAll(async () => {
  await console.close()
  await database.drop()
})

const ID = '0197f3f0-0000-7000-8000-000000000000'

/** All that can be asked. */
const LOOKS = [
  'session',
  'flow',
  'events',
  'find?q=x',
  'requests',
  `requests/${ID}`,
  'inbox',
  'dead',
  'duplicates',
  'reconciliation',
  'interventions',
  'interventions.csv',
  'interventions.json',
]

/** All that can be done. */
const ACTIONS = ['retry', 'executed', 'not-executed', 'answer', 'revoke', 'extend', 'forget', 'erase']
const CHANGES = [
  'dead/requeue',
  'dead/preview',
  `requests/${ID}/reveal`,
  ...ACTIONS.flatMap((action) => [`requests/${ID}/${action}`, `requests/${ID}/preview/${action}`]),
]

async function expectNoChange(): Promise<void> {
  expect(await database.rows('SELECT 1 FROM pawl.interventions')).toEqual([])
}

describe('somebody who is not signed in', () => {
  test.each(LOOKS)('cannot look at %s', async (path) => {
    const answer = await console.as('nobody').get(`api/${path}`)
    expect(answer.status).toBe(401)
    expect(errorOf(answer).code).toBe('unauthenticated')
  })

  test.each(CHANGES)('cannot do %s', async (path) => {
    const { status } = await fetch(`${console.origin}/api/${path}`, { method: 'POST' })
    expect(status).toBe(401)
    await expectNoChange()
  })

  test('gets neither the page nor its files', async () => {
    for (const path of ['', 'requests', 'index.html'])
      expect((await console.as('nobody').get(path)).status).toBe(401)
  })
})

describe('somebody who may only look', () => {
  test.each(CHANGES)('cannot do %s', async (path) => {
    const answer = await console.as('ben').post(`api/${path}`, { reason: 'to see' })
    expect(answer.status).toBe(403)
    expect(errorOf(answer)).toMatchObject({
      code: 'forbidden',
      message: expect.stringMatching(/^ben@example\.com may/),
    })
    await expectNoChange()
  })
})

describe('a change that no page of the console asked for', () => {
  const body = { jobIds: [], reason: 'to see' }

  test('is refused without the token, with a wrong one, and with one that belongs to another browser', async () => {
    const anna = console.as('anna')
    const { csrf } = await anna.session()
    for (const token of [
      '',
      'x',
      csrf.slice(1),
      `${csrf.slice(0, -1)}_`,
      (await console.as('anna').session()).csrf,
    ]) {
      const answer = await anna.post('api/dead/requeue', body, { 'x-pawl-csrf': token })
      expect(answer.status, token).toBe(403)
      expect(errorOf(answer)).toMatchObject({
        code: 'forbidden',
        message: expect.stringContaining('x-pawl-csrf'),
      })
    }
    // The cookie alone is what a browser sends by itself, and the header alone what a page of another site could make up.
    for (const cookie of ['', 'pawl-console-csrf=', `pawl-console-csrf=${csrf}; pawl-console-csrf=${csrf}`])
      expect((await anna.post('api/dead/requeue', body, { cookie })).status, cookie).toBe(403)
    expect((await anna.post('api/dead/requeue', body)).status).toBe(200)
  })

  test.each([
    [{ origin: 'https://evil.example' }],
    [{ origin: 'null' }],
    [{ origin: 'not a url' }],
    [{ 'sec-fetch-site': 'cross-site' }],
    [{ 'sec-fetch-site': 'same-site' }],
    [{ 'sec-fetch-site': 'none' }],
    [{ 'sec-fetch-site': '' }],
  ])('is refused from %o', async (headers) => {
    const answer = await console.as('anna').post('api/dead/requeue', body, headers)
    expect(answer.status).toBe(403)
    expect(errorOf(answer).message).toContain('Behind a proxy')
  })

  test.each([[{ origin: 'OURS' }], [{ 'sec-fetch-site': 'same-origin' }], [{}]])(
    'is not taken for one from %o',
    async (headers) => {
      const ours = Object.fromEntries(
        Object.entries(headers).map(([name, value]) => [name, value === 'OURS' ? console.url : value]),
      )
      expect((await console.as('anna').post('api/dead/requeue', body, ours)).status).toBe(200)
    },
  )

  test('another site cannot read either, and its pages cannot be followed into the API', async () => {
    for (const path of LOOKS)
      expect(
        (await console.as('anna').get(`api/${path}`, { 'sec-fetch-site': 'cross-site' })).status,
        path,
      ).toBe(403)
    // A person may follow a link to the page, which then asks by itself.
    expect((await console.as('anna').get('', { 'sec-fetch-site': 'cross-site' })).status).toBe(200)
  })

  test('has to be JSON', async () => {
    const anna = console.as('anna')
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
    ]) {
      const { status } = await anna.post('api/dead/requeue', body, { 'content-type': type })
      expect(status, type).toBe(400)
    }
  })
})

describe('every answer', () => {
  const PATHS = [
    ...LOOKS.filter((path) => path !== 'events').map((path) => `api/${path}`),
    '',
    'index.html',
    'no.js',
  ]

  test.each(PATHS)('of %s has the headers that keep browsers from doing harm', async (path) => {
    for (const who of ['anna', 'nobody']) {
      const { headers } = await console.as(who).get(path)
      expect(headers.get('content-security-policy')).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
      )
      expect(Object.fromEntries(headers)).toMatchObject({
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
        'cache-control': 'no-store',
        'x-frame-options': 'DENY',
      })
      expect(headers.has('access-control-allow-origin')).toBe(false)
    }
  })

  test('the cookie is for this site only, and no script reads it', async () => {
    const { headers } = await console.as('anna').get('api/session')
    expect(headers.getSetCookie()).toEqual([
      expect.stringMatching(/^pawl-console-csrf=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict$/),
    ])
  })
})

describe('what the address says', () => {
  test.each([
    '/ops/pawl/../../../../etc/passwd',
    '/ops/pawl/..%2f..%2f..%2fetc%2fpasswd',
    '/ops/pawl/%2e%2e/%2e%2e/package.json',
    '/ops/pawl/..\\..\\package.json',
    '/ops/pawl//etc/passwd.txt',
    '/ops/pawl/index.html%00.js',
    '/ops/pawl/constructor.js',
    '/ops/pawl/__proto__.js',
    '/ops/pawl/a/b/c/d/e',
    '/ops/pawl/api/nothing',
  ])('%s leads nowhere', async (path) => {
    // Sent as it is: fetch would tidy it up.
    const { port } = new URL(console.url)
    const sent = httpRequest({ port, path, headers: { 'x-user': 'anna' } }).end()
    const [response] = (await once(sent, 'response')) as [NodeJS.ReadableStream & { statusCode: number }]
    expect([400, 404]).toContain(response.statusCode)
    expect(await text(response)).not.toContain('root:')
  })

  test('the page is the same for each of its views, and knows its way back', async () => {
    const anna = console.as('anna')
    for (const path of ['', 'requests', `requests/${ID}`, 'a%2Fb'])
      expect(await anna.get(path)).toMatchObject({
        status: 200,
        body: expect.stringMatching(/^<!doctype html>/i),
      })
    expect((await anna.get(`requests/${ID}`)).body).not.toContain('__PAWL_')
  })

  test('without its last slash, it is made whole, whatever a proxy calls it', async () => {
    const response = await fetch(console.origin, { headers: { 'x-user': 'anna' }, redirect: 'manual' })
    expect([response.status, response.headers.get('location')]).toEqual([308, 'pawl/'])
  })
})

test.each([
  ['/ops/pawl/', '/ops/pawl/'],
  ['/:tenant/pawl', '/somebody/pawl/'],
  ['/ops/pawl', '/%6Fps/pawl/'],
])('mounted at %s, the page and its files are at %s', async (prefix, path) => {
  const own = await consoleOn(database, {}, prefix)
  onTestFinished(() => own.close())
  const { body } = await new ConsoleClient(own.url, { 'x-user': 'anna' }).get<string>(path.slice(1))
  const [, script] = /src="\.\/([\w-]+\.js)"/.exec(body) ?? []
  const file = await new ConsoleClient(own.url, { 'x-user': 'anna' }).get(`${path.slice(1)}${script}`)
  expect(file.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
  const deeper = await new ConsoleClient(own.url, { 'x-user': 'anna' }).get<string>(
    `${path.slice(1)}requests/x`,
  )
  expect(deeper.body).toContain(`src="../${script}"`)
})

async function appWithout() {
  const app = Fastify()
  onTestFinished(() => app.close())
  await app.register(fastifyPawlConsole, { prefix: '/ops', pool: database.pool(), schema: database.schema })
  return app
}

describe('without authenticate', () => {
  test('an app that others can reach does not start', async () => {
    for (const host of ['0.0.0.0', '::', undefined]) {
      const app = await appWithout()
      const starting = app.listen({
        port: 0,
        ...(host === undefined ? { path: `/tmp/pawl-${process.pid}.sock` } : { host }),
      })
      await expect(starting).rejects.toMatchObject({
        code: 'PAWL_INVALID_OPTION',
        message: expect.stringMatching(/listens on .* Pass authenticate, or listen on 127\.0\.0\.1/),
      })
    }
  })

  test.each(['127.0.0.1', 'localhost', '::1'])('it listens on %s', async (host) => {
    const app = await appWithout()
    const url = await app.listen({ port: 0, host })
    expect((await new ConsoleClient(`${url}/ops`).session()).actor).toBe('console@localhost')
  })

  test('a name that another site makes lead here, and a proxy, are refused', async () => {
    const app = await appWithout()
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    for (const headers of [
      { host: 'evil.example' },
      { host: '127.0.0.1.evil.example' },
      { 'x-forwarded-for': '203.0.113.7' },
      { forwarded: 'for=203.0.113.7' },
      { 'x-real-ip': '203.0.113.7' },
      { 'x-forwarded-proto': 'https' },
      { 'cf-connecting-ip': '203.0.113.7' },
      // Sent by a page of the proxy's own name: one that replaces Host leaves it as it is.
      { origin: 'https://ops.example', 'sec-fetch-site': 'same-origin' },
      { origin: 'null', 'sec-fetch-site': 'same-origin' },
    ]) {
      const sent = httpRequest(`${url}/ops/api/session`, { headers }).end()
      const [response] = (await once(sent, 'response')) as [NodeJS.ReadableStream & { statusCode: number }]
      expect(response.statusCode, JSON.stringify(headers)).toBe(403)
      response.resume()
    }
  })

  test('a proxy that only speaks an old HTTP is refused, as one without any settings does', async () => {
    const app = await appWithout()
    const { port } = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
    const socket = connect(Number(port), '127.0.0.1')
    socket.write(`GET /ops/api/session HTTP/1.0\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`)
    expect(await text(socket)).toMatch(/^HTTP\/1\.1 403 /)
  })

  test('a server that was given to the app and already listens elsewhere answers nobody from there', async () => {
    const app = await appWithout()
    await app.ready()
    const server = createServer((request, response) => {
      // As if it had come in over another interface.
      Object.defineProperty(request.socket, 'remoteAddress', { value: '203.0.113.7' })
      app.routing(request, response)
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const { port } = server.address() as { port: number }
    expect((await fetch(`http://127.0.0.1:${port}/ops/api/session`)).status).toBe(403)
  })
})

describe('authenticate', () => {
  test('may send an answer by itself', async () => {
    const own = await consoleOn(database, {
      authenticate: async (_request, reply) => {
        await reply.redirect('/login')
        return null
      },
    })
    const { status, headers } = await own.as('anna').get('')
    expect([status, headers.get('location')]).toEqual([302, '/login'])
    await own.close()
  })

  test.each([
    [{ actor: 'x', canChange: 'yes' }],
    [{ actor: '', canChange: true }],
    [{ actor: 'x'.repeat(256), canChange: true }],
    [{ actor: 'x', canChange: true, canChnage: true }],
    [{}],
    ['anna'],
    [undefined],
  ])('that returns %o lets nobody in', async (user) => {
    const own = await consoleOn(database, { authenticate: () => user as never })
    const answer = await own.as('anna').get('api/session')
    expect(answer.status).toBe(500)
    expect(errorOf(answer).code).toBe('internal')
    expect(own.errors.join()).toContain('authenticate')
    await own.close()
  })

  test('that throws lets nobody in, and the browser does not see why', async () => {
    const own = await consoleOn(database, {
      authenticate: () => {
        throw new Error('sesame')
      },
    })
    const answer = await own.as('anna').get('api/session')
    expect(answer.status).toBe(500)
    expect(JSON.stringify(answer.body)).not.toContain('sesame')
    await own.close()
  })
})

const right = () => ({ pool: database.pool(), authenticate: () => USERS['anna'] ?? null })

describe('options', () => {
  test.each([
    [{ pool: undefined }, /pool is undefined; it takes a pg\.Pool/],
    [{ readPool: {} }, /readPool is an object; it takes a pg\.Pool/],
    [{ authenticate: true }, /authenticate is true; it takes a function/],
    [{ traceUrl: 'javascript:alert({traceId})' }, /traceUrl is 'javascript/],
    [{ traceUrl: 'https://tempo.example/' }, /has '\{traceId\}' in it/],
    [{ pollMs: 10 }, /pollMs is 10; it takes a whole number of 100 or more/],
    [{ schema: 'a b' }, /schema is 'a b'/],
    [{ authentication: () => null }, /unknown option 'authentication'/],
  ])('%o is refused', async (wrong, says) => {
    const app = Fastify()
    await expect(app.register(fastifyPawlConsole, { ...right(), ...wrong } as never)).rejects.toThrow(says)
    await app.close()
  })

  test('the pool that writes is not taken for reading', async () => {
    const app = Fastify()
    const { pool, authenticate } = right()
    await expect(app.register(fastifyPawlConsole, { pool, readPool: pool, authenticate })).rejects.toThrow(
      /readPool is the pool that writes/,
    )
    await app.close()
  })
})

test('beside @pawl/fastify, no route counts as unprotected', async () => {
  const app = Fastify()
  const engine = plainEngine(database)
  await app.register(fastifyPawl, { engine, scope: () => 'x', enforce: 'error' })
  await app.register(fastifyPawlConsole, {
    prefix: '/ops',
    pool: database.pool(),
    schema: database.schema,
    authenticate: () => USERS['anna'] ?? null,
  })
  await app.ready()
  expect(app.idempotencyAudit().map(({ key }) => key)).toEqual(Array.from({ length: 5 }, () => 'exempt'))
  await app.close()
})

test('a body that is too large is refused before anybody has read it', async () => {
  const anna = console.as('anna')
  const answer = await anna.post('api/dead/requeue', { reason: 'x'.repeat(3 * 1_024 * 1_024), jobIds: [] })
  expect(answer.status).toBe(400)
})

test('a request that is no HTTP does not end anything', async () => {
  const { port } = new URL(console.url)
  const socket = connect(Number(port), '127.0.0.1')
  socket.end('\u0000\u0001 nonsense\r\n\r\n')
  socket.on('error', () => {})
  await once(socket.resume(), 'close')
  expect((await console.as('anna').get('api/session')).status).toBe(200)
})
