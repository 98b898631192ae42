import { respond } from '@pawl/core'
import type { IdempotencyOptions } from '@pawl/fastify'
import type { FastifyInstance } from 'fastify'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { json, keyRows, send } from '../support/http-requests.js'
import { type RideApp, rideApp, type RideAppOptions } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'

/** The most bytes that a refused request may make us write: the answer and all lines of the log together. */
const MOST_ANSWERED = 64 * 1024
const MOST_LOGGED = 256 * 1024

const Line = z.strictObject({ sku: z.string(), count: z.number(), price: z.number() })
const order = pipeline({ name: 'order', version: 1, input: z.array(Line) }).finish(() => respond(201))
const named = pipeline({
  name: 'named',
  version: 1,
  input: z.record(z.string(), z.number()),
}).finish(() => respond(201))
const strict = pipeline({ name: 'strict', version: 1, input: z.strictObject({}) }).finish(() => respond(201))

/** This many empty objects in an array, each of which is wrong in three ways. */
const emptyObjects = (bytes: number) => `[${'{},'.repeat(Math.floor(bytes / 3))}{}]`

function orders(options: RideAppOptions = {}): Promise<RideApp> {
  return rideApp({
    pipelines: [order, named, strict],
    routes: (app) => {
      const route = { idempotency: true }
      app.post('/orders', route, (request) => request.pawl.run(order, request.body as never))
      app.post('/named', route, (request) => request.pawl.run(named, request.body as never))
      app.post('/strict', route, (request) => request.pawl.run(strict, request.body as never))
    },
    ...options,
  })
}

function loggedBytes(log: RideApp['log']): number {
  return log.reduce((bytes, line) => bytes + JSON.stringify(line).length, 0)
}

describe("a pipeline's schema", () => {
  test('is not run on content over the cap', async () => {
    let asked = 0
    const counting = pipeline({
      name: 'counting',
      version: 1,
      input: z.unknown().transform((value) => {
        asked++
        return value as string
      }),
    }).finish(() => respond(201))
    const { app, database, log } = await rideApp({
      pipelines: [counting],
      routes: (server) =>
        void server.post('/counting', { idempotency: true }, (request) =>
          request.pawl.run(counting, request.body as never),
        ),
    })
    const response = await send(app, { url: '/counting', ...json(emptyObjects(1_000_000)) })
    expect([response.statusCode, response.json<{ code: string }>().code]).toEqual([413, 'request_too_large'])
    expect(asked).toBe(0)
    expect(await keyRows(database)).toEqual([])
    expect(loggedBytes(log)).toBeLessThan(MOST_LOGGED)
  })

  test.each([
    ['many wrong items', '/orders', emptyObjects(250_000)],
    ['a name of 200 KB', '/named', JSON.stringify({ ['n'.repeat(200_000)]: 'x' })],
    ['a message that quotes 12,000 members', '/strict', manyMembers(12_000)],
    [
      'names that JSON writes six times as long',
      '/named',
      manyMembers(30, (at) => `${at}${'\u0001'.repeat(1_000)}`),
    ],
  ])('that refuses %s is answered and logged briefly', async (_, url, body) => {
    const { app, database, log } = await orders()
    const response = await send(app, { url, ...json(body) })
    expect([response.statusCode, response.json<{ code: string }>().code]).toEqual([400, 'invalid_input'])
    const { errors } = response.json<{ errors: { detail: string; path: string }[] }>()
    expect(errors.length).toBeGreaterThan(0)
    expect(errors.length).toBeLessThanOrEqual(20)
    expect(response.rawPayload.length).toBeLessThan(MOST_ANSWERED)
    expect(loggedBytes(log)).toBeLessThan(MOST_LOGGED)
    expect(await keyRows(database)).toEqual([])
  })

  test('reports the first twenty errors, and how many there were', async () => {
    const { app, log } = await orders()
    const response = await send(app, { url: '/orders', ...json(emptyObjects(300)) })
    const { errors, detail } = response.json<{ errors: { path: string }[]; detail: string }>()
    expect(errors.map(({ path }) => path).slice(0, 4)).toEqual(['0.sku', '0.count', '0.price', '1.sku'])
    expect(errors).toHaveLength(20)
    expect(detail).toContain('Problems not listed: 283.')
    const err = expect.objectContaining({ message: expect.stringMatching(/283 more$/) as string }) as unknown
    expect(log).toContainEqual(expect.objectContaining({ err }))
  })
})

function manyMembers(count: number, nameOf: (at: number) => string = (at) => `member${at}`): string {
  return JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, at) => [nameOf(at), 'x'])))
}

const item = {
  type: 'object',
  properties: { sku: { type: 'string' }, count: { type: 'integer' } },
  required: ['sku', 'count'],
}
const ofArray = { body: { type: 'array', items: item } }
const ofNames = { body: { type: 'object', additionalProperties: { type: 'object' } } }
const marked = (schema: object, more: object = {}) => ({
  server: { ajv: { customOptions: { allErrors: true, coerceTypes: false } } },
  routes: (app: FastifyInstance) =>
    void app.post('/validated', { schema, idempotency: { atomic: true }, ...more }, async () => ''),
})

describe("Fastify's own validation of a marked route", () => {
  test.each([
    ['many wrong items', ofArray, emptyObjects(900_000)],
    ['long names', ofNames, manyMembers(30, (at) => `${at}${'n'.repeat(30_000)}`)],
  ])('with allErrors is answered and logged briefly: %s', async (_, schema, body) => {
    const { app, log } = await rideApp(marked(schema))
    const response = await send(app, { url: '/validated', ...json(body) })
    expect(response.statusCode).toBe(400)
    expect(response.json()).toMatchObject({ code: 'FST_ERR_VALIDATION' })
    expect(response.rawPayload.length).toBeLessThan(MOST_ANSWERED)
    expect(loggedBytes(log)).toBeLessThan(MOST_LOGGED)
  })

  test('with allErrors keeps the message that the application makes of the errors', async () => {
    const given: number[] = []
    const schemaErrorFormatter = (errors: readonly unknown[]) => {
      given.push(errors.length)
      return new Error('not like this')
    }
    for (const place of ['route', 'instance']) {
      const { app } = await rideApp({
        ...marked(ofArray, place === 'route' ? { schemaErrorFormatter } : {}),
        before: (server) =>
          void (place === 'instance' && server.setSchemaErrorFormatter(schemaErrorFormatter)),
      })
      const response = await send(app, { url: '/validated', ...json(emptyObjects(900)) })
      expect(response.json<{ message: string }>().message).toBe('not like this')
    }
    expect(given).toEqual([20, 20])
  })
})

describe('JSON nested 5,000 deep', () => {
  const DEEP = `${'['.repeat(5_000)}${']'.repeat(5_000)}`

  test('is refused by an atomic route whose schema refers to itself', async () => {
    const schema = { body: { $id: 'tree', type: 'array', items: { $ref: '#' } } }
    const { app, database } = await rideApp({
      routes: (server) =>
        void server.post('/deep', { schema, idempotency: { atomic: true } }, async () => 'ran'),
    })
    const response = await send(app, { url: '/deep', ...json(DEEP) })
    expect([response.statusCode, response.json<{ code: string }>().code]).toEqual([400, 'invalid_input'])
    expect(await keyRows(database)).toEqual([])
  })

  test.each<[string, IdempotencyOptions]>([
    ['an atomic route', { atomic: true }],
    ['an atomic route that says what counts', { atomic: true, fingerprint: () => 'always the same' }],
    ['a pipeline', {}],
    ['a pipeline whose route says what counts', { fingerprint: () => 'always the same' }],
  ])('is refused by %s', async (_, idempotency) => {
    const { app, database } = await rideApp({
      pipelines: [order],
      routes: (server) =>
        void server.post('/deep', { idempotency }, async (request) => {
          if (idempotency.atomic === true) return 'ran'
          return request.pawl.run(order, request.body as never)
        }),
    })
    for (const body of [DEEP, `{"query":${DEEP}}`]) {
      const response = await send(app, { url: '/deep', ...json(body) })
      expect([response.statusCode, response.json<{ code: string }>().code]).toEqual([400, 'invalid_input'])
    }
    expect(await keyRows(database)).toEqual([])
  })
})
