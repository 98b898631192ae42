import { Readable } from 'node:stream'
import { type Respond, respond, respondBytes } from '@pawl/core'
import type { FastifyInstance } from 'fastify'
import { describe, expect, test } from 'vitest'
import { lasting, listen, send, type ToSend } from '../support/http-client.js'
import { rideApp, type RideAppOptions } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'

/** An app whose `/answer` sends what the test gives it. */
async function answering(answer: () => Respond, options: RideAppOptions = {}) {
  let runs = 0
  const answers = pipeline<null>({ name: 'answers', version: 1 }).finish(() => {
    runs++
    return answer()
  })
  const ride = await rideApp({
    ...options,
    pipelines: [answers],
    routes: (app: FastifyInstance) => {
      for (const method of ['POST', 'HEAD']) {
        app.route({
          method,
          url: '/answer',
          idempotency: true,
          handler: (request) => request.pawl.run(answers, null),
        })
      }
    },
  })
  const url = await listen(ride.app)
  const ask = (toSend: ToSend = {}) => send(url, { path: '/answer', ...toSend })
  return { ...ride, ask, runs: () => runs }
}

const ofType = (type: string) => ({ headers: { 'content-type': type } })

const storedKeys = 'SELECT status, response_status, response_body FROM pawl.idempotency_keys'

describe('a body is replayed byte for byte, with the same headers', () => {
  const everyByte = Uint8Array.from({ length: 256 }, (_, byte) => byte)
  const text = 'Grüße, 世界 🚲\r\n'
  const megabyte = Buffer.alloc(1_048_576, everyByte)

  test.each([
    ['JSON', () => respond(201, { ü: ['世界', 1.5, null] }), 'application/json; charset=utf-8', 201],
    ['every byte', () => respondBytes(200, everyByte, ofType('image/png')), 'image/png', 200],
    ['CSV', () => respondBytes(200, 'id,amount\n1,20\n', ofType('text/csv')), 'text/csv', 200],
    [
      'UTF-8 text',
      () => respondBytes(200, text, ofType('text/plain; charset=utf-8')),
      'text/plain; charset=utf-8',
      200,
    ],
    [
      'JSON of another type',
      () => respondBytes(200, '{ "a":1 }', ofType('application/hal+json')),
      'application/hal+json',
      200,
    ],
    ['a megabyte', () => respondBytes(200, megabyte, ofType('application/pdf')), 'application/pdf', 200],
    ['bytes of no type', () => respondBytes(200, everyByte), 'application/octet-stream', 200],
    [
      'an error of the business',
      () => respond(402, { code: 'declined' }),
      'application/json; charset=utf-8',
      402,
    ],
  ] as const)('%s', async (_, answer, type, status) => {
    const { ask, runs } = await answering(answer)
    const first = await ask()
    expect(first.status).toBe(status)
    expect(first.headers['content-type']).toBe(type)
    expect(first.body.equals(answer().response.body)).toBe(true)
    const replay = await ask()
    expect(replay.headers['idempotency-replayed']).toBe('true')
    expect(lasting(replay)).toEqual(lasting(first))
    expect(runs()).toBe(1)
  })

  test.each([
    ['204', () => respond(204), 204, undefined],
    ['an empty 200', () => respond(200), 200, '0'],
    [
      'an empty 201 with a location',
      () => respond(201, undefined, { headers: { location: '/x' } }),
      201,
      '0',
    ],
  ] as const)('%s, which has no content type', async (_, answer, status, length) => {
    const { ask } = await answering(answer)
    const first = await ask()
    const replay = await ask()
    expect(first.status).toBe(status)
    expect(first.body).toHaveLength(0)
    expect(first.headers['content-type']).toBeUndefined()
    expect(first.headers['content-length']).toBe(length)
    expect(first.headers['location']).toBe(answer().response.headers['location'])
    expect(replay.headers['idempotency-replayed']).toBe('true')
    expect(lasting(replay)).toEqual(lasting(first))
  })

  test('HEAD, with the headers that the GET would have', async () => {
    const { ask } = await answering(() => respond(200, { some: 'content' }))
    const first = await ask({ method: 'HEAD' })
    const replay = await ask({ method: 'HEAD' })
    expect(first.status).toBe(200)
    expect(first.body).toHaveLength(0)
    expect(first.headers['content-length']).toBe(String('{"some":"content"}'.length))
    expect(replay.headers['idempotency-replayed']).toBe('true')
    expect(lasting(replay)).toEqual(lasting(first))
  })
})

test('the HEAD that Fastify adds to a GET takes keys as the GET does, and is another request than the GET', async () => {
  let runs = 0
  const { app } = await rideApp({
    routes: (server) => {
      server.get('/report', { idempotency: { atomic: true } }, async () => ({ run: ++runs }))
    },
  })
  const url = await listen(app)
  const ask = (method: string, key: string) =>
    send(url, { method, path: '/report', headers: { 'idempotency-key': key } })
  const got = await ask('GET', 'k1')
  expect(JSON.parse(got.body.toString())).toEqual({ run: 1 })
  expect((await ask('GET', 'k1')).body).toEqual(got.body)
  const head = await ask('HEAD', 'k2')
  expect(head.status).toBe(200)
  expect(head.headers['content-length']).toBe(String(got.body.length))
  expect(lasting(await ask('HEAD', 'k2'))).toEqual(lasting(head))
  // Another method is another request.
  expect((await ask('HEAD', 'k1')).status).toBe(422)
  expect(runs).toBe(2)
})

const answerWithHeaders = () =>
  respond(
    201,
    {},
    { headers: { location: '/x', link: '</x>', 'x-own': 'own', 'retry-after': '9', 'x-request-id': 'r' } },
  )

describe('headers', () => {
  test('that hold only for the moment are left out unless the plugin is told to store them, and the log says so', async () => {
    const { ask, log } = await answering(answerWithHeaders, { plugin: { storedHeaders: ['Retry-After'] } })
    const first = await ask()
    const replay = await ask()
    for (const { headers } of [first, replay]) {
      expect(headers).toMatchObject({ location: '/x', link: '</x>', 'x-own': 'own', 'retry-after': '9' })
      expect(headers['x-request-id']).toBeUndefined()
    }
    expect(lasting(replay)).toEqual(lasting(first))
    expect(log.filter(({ header }) => header === 'x-request-id')).toHaveLength(2)
  })

  test.each([
    'set-cookie',
    'Set-Cookie',
    'date',
    'content-length',
    'Idempotency-Replayed',
    'idempotency-key',
  ])('%s is never stored', async (name) => {
    const refused = rideApp({ plugin: { storedHeaders: [name] } })
    await expect(refused).rejects.toMatchObject({
      code: 'PAWL_INVALID_OPTION',
      message: expect.stringContaining(`storedHeaders is '${name.toLowerCase()}'`) as string,
    })
  })
})

describe('a response that cannot be stored is refused with the reason', () => {
  test.each([
    [
      'larger than the cap',
      () => respondBytes(200, Buffer.alloc(1_001)),
      'PAWL_TOO_LARGE',
      'the cap is 1000',
    ],
    ['a stream of Node', () => respond(200, Readable.from(['a']) as never), 'PAWL_NOT_JSON', 'is a Readable'],
    [
      'a stream of the web',
      () => respond(200, new ReadableStream() as never),
      'PAWL_NOT_JSON',
      'is a ReadableStream',
    ],
    [
      'a stream as bytes',
      () => respondBytes(200, Readable.from(['a']) as never),
      'PAWL_INVALID_RESPONSE',
      'Uint8Array',
    ],
  ])('%s', async (_, answer, code, said) => {
    const { ask, database, log } = await answering(answer, { engine: { caps: { responseBytes: 1_000 } } })
    const refused = await ask()
    expect(refused.status).toBe(500)
    expect(JSON.parse(refused.body.toString())).toMatchObject({ code: 'unexpected_error' })
    const why = expect.objectContaining({ code, message: expect.stringContaining(said) as string }) as unknown
    expect(log).toContainEqual(expect.objectContaining({ level: 50, err: why }))
    const kept = { status: 'running', response_status: null, response_body: null }
    expect(await database.rows(storedKeys)).toEqual([kept])
  })
})

test('a body over the limit of the server is refused by the server, and leaves no row', async () => {
  const { app, database, provider } = await rideApp({ server: { bodyLimit: 100 } })
  const url = await listen(app)
  const refused = await send(url, { body: { amount: 20, note: 'x'.repeat(100) } })
  expect(refused.status).toBe(413)
  expect(JSON.parse(refused.body.toString())).toMatchObject({ code: 'FST_ERR_CTP_BODY_TOO_LARGE' })
  expect(await database.rows(storedKeys)).toEqual([])
  expect(await provider.requests()).toEqual([])
})
