import { respond } from '@pawl/core'
import type { LightMyRequestResponse } from 'fastify'
import { describe, expect, test } from 'vitest'
import { ask, completerOf, sendAsync } from '../support/async-app.js'
import { audit, keyRows, send } from '../support/http-requests.js'
import { rideApp, type RideAppOptions } from '../support/ride-app.js'
import { appOf, scripted, TARGET } from '../support/scripted-app.js'

/** Headers that keep a user's file from running as one of our pages. */
const PROTECTIVE = {
  'cache-control': 'private, no-store',
  'content-disposition': 'attachment; filename="report.html"',
  'content-security-policy': "sandbox; default-src 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'x-of-the-future': 'protects',
}

/** Headers that must never be replayed from storage. */
const OF_THE_MOMENT = {
  'access-control-allow-origin': 'https://first.test',
  age: '0',
  'idempotency-expires': 'never',
  'idempotency-replayed': 'false',
  'ratelimit-remaining': '3',
  'retry-after': '5',
  'server-timing': 'db;dur=53',
  'x-csrf-token': 'c',
  'x-request-id': 'first',
}

const html = '<script>alert(1)</script>'

function file(options: RideAppOptions = {}) {
  return rideApp({
    routes: (app) =>
      void app.post('/file', { idempotency: { atomic: true } }, async (request, reply) => {
        await request.tx.insertInto('audit').values({ what: 'file' }).execute()
        reply
          .code(201)
          .type('text/html')
          .headers({ ...PROTECTIVE, ...OF_THE_MOMENT })
        return html
      }),
    ...options,
  })
}

const isReplay = ({ headers }: LightMyRequestResponse) => headers['idempotency-replayed']

describe('headers that protect the content are replayed with it', () => {
  test('by an atomic handler', async () => {
    const { app } = await file()
    const [first, replay] = [await send(app, { url: '/file' }), await send(app, { url: '/file' })]
    expect(isReplay(replay)).toBe('true')
    expect(first.headers).toMatchObject(PROTECTIVE)
    expect(replay.headers).toMatchObject(PROTECTIVE)
  })

  test('by a pipeline, and by its status', async () => {
    const target = scripted([() => respond(200, {}, { headers: PROTECTIVE })])
    const { app, engine } = await appOf(target, { plugin: { respondAsync: true } })
    const accepted = await sendAsync(app, TARGET)
    await completerOf(engine).runOnce()
    const replay = await send(app, TARGET)
    expect(isReplay(replay)).toBe('true')
    expect(replay.headers).toMatchObject(PROTECTIVE)
    expect((await ask(app, accepted)).headers).toMatchObject({ ...PROTECTIVE, 'cache-control': 'no-store' })
  })

  test('and replace weaker ones that a hook sets for every answer', async () => {
    const { app } = await file({
      before: (server) =>
        void server.addHook('onRequest', async (_request, reply) => {
          reply.headers({ 'content-security-policy': 'default-src *', 'cache-control': 'public' })
        }),
    })
    await send(app, { url: '/file' })
    expect((await send(app, { url: '/file' })).headers).toMatchObject(PROTECTIVE)
  })
})

describe('headers that hold only for the moment are not stored', () => {
  test('of an atomic handler: they are sent with the first answer, except for those that the plugin sets itself', async () => {
    const { app, database } = await file()
    const first = await send(app, { url: '/file' })
    expect(first.headers).toMatchObject({ 'x-request-id': 'first', 'ratelimit-remaining': '3' })
    expect(first.headers['idempotency-expires']).not.toBe('never')
    const replay = await send(app, { url: '/file' })
    expect(isReplay(replay)).toBe('true')
    const { 'idempotency-expires': _expires, 'idempotency-replayed': _replayed, ...others } = OF_THE_MOMENT
    for (const name of Object.keys(others)) expect(replay.headers).not.toHaveProperty(name)
    const rows = await database.rows<{ response_headers: object }>(
      'SELECT response_headers FROM pawl.idempotency_keys',
    )
    expect(Object.keys(rows[0]?.response_headers ?? {}).toSorted()).toEqual(
      [...Object.keys(PROTECTIVE), 'content-type'].toSorted(),
    )
  })

  test('of a pipeline: they are in no answer', async () => {
    const target = scripted([() => respond(200, {}, { headers: OF_THE_MOMENT })])
    const { app } = await appOf(target)
    for (const response of [await send(app, TARGET), await send(app, TARGET)]) {
      for (const [name, value] of Object.entries(OF_THE_MOMENT))
        expect(response.headers[name]).not.toBe(value)
    }
  })
})

test('Vary combines what the hooks and the operation say', async () => {
  const target = scripted([() => respond(200, {}, { headers: { vary: 'Accept, origin' } })])
  const { app } = await appOf(target, {
    before: (server) =>
      void server.addHook('onRequest', async (_request, reply) => void reply.header('vary', 'Origin')),
  })
  for (const response of [await send(app, TARGET), await send(app, TARGET)])
    expect(response.headers['vary']).toBe('Origin, Accept')
})

const large = { 'content-security-policy': 'x'.repeat(9_000) }
const answers = () => scripted([() => respond(200, {}, { headers: large })])

describe('headers over the cap', () => {
  test('undo an atomic handler, and the error names the cap', async () => {
    const { app, database, log } = await rideApp({
      routes: (server) =>
        void server.post('/large', { idempotency: { atomic: true } }, async (request, reply) => {
          await request.tx.insertInto('audit').values({ what: 'large' }).execute()
          reply.headers(large)
          return ''
        }),
    })
    expect((await send(app, { url: '/large' })).statusCode).toBe(500)
    expect(await audit(database)).toEqual([])
    expect(await keyRows(database)).toEqual([])
    const message = expect.stringMatching(
      /headers of the response .* are 90\d\d bytes; the cap is 8192/,
    ) as string
    const err = expect.objectContaining({ message }) as unknown
    expect(log).toContainEqual(expect.objectContaining({ err }))
  })

  test('of a pipeline are not stored, and are sent once the cap is raised', async () => {
    const first = await appOf(answers())
    expect((await send(first.app, TARGET)).statusCode).toBe(500)
    expect(await keyRows(first.database)).toMatchObject([{ status: 'running', recovery_point: 'written' }])
    const raised = await appOf(answers(), {
      beside: first,
      engine: { caps: { headerBytes: 16 * 1024 } },
    })
    expect((await send(raised.app, TARGET)).statusCode).toBe(200)
    expect(await audit(first.database)).toEqual(['written'])
  })
})
