import { type Pipeline, respond } from '@pawl/core'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteShorthandOptions } from 'fastify'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { keysIn, notesIn, post } from '../support/notes.js'
import { type RideApp, rideApp, type RideAppOptions } from '../support/ride-app.js'
import { type Database, pipeline } from '../support/rides.js'

afterEach(() => vi.unstubAllEnvs())

type Run = () => Promise<void>
type Answer = (reply: FastifyReply, run: Run, request: FastifyRequest) => unknown

/** Writes a note and answers 201. */
const takeNote: Pipeline<Database, null> = pipeline<null>({ name: 'take-note', version: 1 })
  .local('noted', async ({ tx }) => void (await tx.insertInto('audit').values({ what: 'noted' }).execute()))
  .finish(() => respond(201, { noted: true }))

/** An app whose `POST /notes` is marked, and answers with `answer`. */
function appThat(
  answer: Answer,
  options: RideAppOptions = {},
  route: RouteShorthandOptions = { idempotency: true },
): Promise<RideApp> {
  return rideApp({
    pipelines: [takeNote],
    ...options,
    routes: (app: FastifyInstance) =>
      void app.post('/notes', route, (request, reply) =>
        answer(reply, () => request.pawl.run(takeNote, null), request),
      ),
  })
}

/** Starts something and does not wait for it. */
const having = <Payload>(_running: Promise<void>, payload: Payload): Payload => payload

const codesIn = (log: RideApp['log'], level: number) =>
  log
    .filter((line) => line['level'] === level)
    .map((line) => (line['err'] as { readonly code?: string } | undefined)?.code)

const withoutRun: [string, Answer][] = [
  ['returns a value', async () => ({ ok: true })],
  ['returns a value at once', () => ({ ok: true })],
  ['returns nothing', async () => {}],
  ['calls reply.send', (reply) => void reply.send({ ok: true })],
  ['calls reply.send later', (reply) => void setImmediate(() => void reply.send({ ok: true }))],
  ['returns its reply', async (reply) => reply.code(201).send({ ok: true })],
  ['calls reply.callNotFound', (reply) => reply.callNotFound()],
  ['redirects', (reply) => void reply.redirect('/elsewhere')],
  ['sends an error of its own making', (reply) => void reply.code(404).send({ error: 'none' })],
]

describe('a handler that answers without running its pipeline', () => {
  test.each(withoutRun)('and %s gets an error at once', async (_, answer) => {
    const { app, database } = await appThat(answer)
    const response = await post(app, '/notes')
    expect([response.statusCode, response.json()]).toMatchObject([500, { code: 'PAWL_PIPELINE_NOT_RUN' }])
    expect(response.json<{ message: string }>().message).toContain('The handler of POST /notes answered')
    expect(await keysIn(database)).toEqual([])
  })

  test('does not succeed either if the error handler leaves the status to others', async () => {
    const { app } = await appThat(async (reply) => reply.code(201).send({ ok: true }), {
      before: (server) => {
        server.setErrorHandler((error, _request, reply) => reply.send({ told: (error as Error).message }))
      },
    })
    const response = await post(app, '/notes')
    expect([response.statusCode, Object.keys(response.json())]).toEqual([500, ['told']])
  })

  test('is only logged with strict: false', async () => {
    const { app, log } = await appThat(async () => ({ ok: true }), { plugin: { strict: false } })
    const response = await post(app, '/notes')
    expect([response.statusCode, response.json()]).toEqual([200, { ok: true }])
    expect(codesIn(log, 50)).toEqual(['PAWL_PIPELINE_NOT_RUN'])
  })

  test('is only logged in production, unless strict says otherwise', async () => {
    vi.stubEnv('NODE_ENV', 'production')
    const byDefault = await appThat(async () => ({ ok: true }))
    expect((await post(byDefault.app, '/notes')).statusCode).toBe(200)
    expect(codesIn(byDefault.log, 50)).toEqual(['PAWL_PIPELINE_NOT_RUN'])
    const strict = await appThat(async () => ({ ok: true }), { plugin: { strict: true } })
    expect((await post(strict.app, '/notes')).statusCode).toBe(500)
  })
})

const fail = (): never => {
  throw Object.assign(new Error('no such book'), { statusCode: 404, code: 'NO_BOOK' })
}

describe('an answer that does not come from the handler is left alone', () => {
  test.each([
    ['at once', fail],
    ['later', async () => fail()],
    ['by reply.send', (reply: FastifyReply) => void reply.send(new Error('no such book'))],
  ])('one for an error that it throws %s', async (_, answer) => {
    const { app, log } = await appThat(answer)
    expect((await post(app, '/notes')).json()).toMatchObject({ message: 'no such book' })
    expect(codesIn(log, 50)).not.toContain('PAWL_PIPELINE_NOT_RUN')
  })

  test('one from a hook that refuses, before the route or on it', async () => {
    const { app, revoked } = await appThat(
      (_, run) => run(),
      {},
      {
        idempotency: true,
        preHandler: async (_, reply) => reply.code(403).send({ error: 'not you' }),
      },
    )
    expect((await post(app, '/notes')).json()).toEqual({ error: 'not you' })
    revoked.add('ann')
    expect((await post(app, '/notes')).statusCode).toBe(401)
  })

  test('one from validation', async () => {
    const schema = { body: { type: 'object', required: ['amount'] } }
    const { app } = await appThat((_, run) => run(), {}, { idempotency: true, schema })
    expect((await post(app, '/notes')).json()).toMatchObject({ code: 'FST_ERR_VALIDATION' })
    expect((await post(app, '/notes', { payload: { amount: 1 } })).statusCode).toBe(201)
  })
})

describe('a second run for one request', () => {
  test('fails, and the first answer stands', async () => {
    const { app, database, log } = await appThat(async (_, run) => {
      await run()
      await run()
    })
    expect((await post(app, '/notes')).statusCode).toBe(201)
    await app.close()
    expect(codesIn(log, 50)).toEqual(['PAWL_SECOND_RUN'])
    expect(await notesIn(database)).toEqual(['noted'])
  })

  test('at the same time as the first fails the request, and a retry gets the result of the first', async () => {
    let times = 2
    const { app, database } = await appThat((_, run) =>
      Promise.all(Array.from({ length: times }, () => run())).then(() => {}),
    )
    const response = await post(app, '/notes')
    expect([response.statusCode, response.json()]).toMatchObject([500, { code: 'PAWL_SECOND_RUN' }])
    times = 1
    // The first may still be running.
    while ((await keysIn(database))[0]?.status !== 'finished');
    expect((await post(app, '/notes')).statusCode).toBe(201)
    expect(await notesIn(database)).toEqual(['noted'])
  })
})

describe('a handler that does not wait for its pipeline', () => {
  const careless: [string, Answer][] = [
    ['returns nothing', async (_, run) => void run()],
    ['returns a value', async (_, run) => having(run(), { ok: true })],
    ['calls reply.send', (reply, run) => void having(run(), reply.send({ ok: true }))],
  ]
  test.each(careless)('and %s never shows the client a false success', async (_, answer) => {
    // Not even where other answers are allowed.
    vi.stubEnv('NODE_ENV', 'production')
    const { app, database } = await appThat(answer)
    const response = await post(app, '/notes')
    expect([response.statusCode, response.json()]).toMatchObject([500, { code: 'PAWL_PIPELINE_NOT_RUN' }])
    await app.close()
    expect(await notesIn(database)).toEqual(['noted'])
  })

  test('and is not async still answers with what its pipeline returns', async () => {
    const { app } = await appThat((_, run) => void run())
    expect((await post(app, '/notes')).statusCode).toBe(201)
  })
})

const runInHook = async (request: FastifyRequest) => request.pawl.run(takeNote, null)

describe('request.pawl', () => {
  test('is refused on a route that is not marked', async () => {
    const { app, database } = await appThat((_, run) => run(), {}, {})
    expect((await post(app, '/notes')).json()).toMatchObject({
      code: 'PAWL_ROUTE_NOT_MARKED',
      message: expect.stringContaining('POST /notes has no idempotency option'),
    })
    expect(await keysIn(database)).toEqual([])
  })

  test.each(['onRequest', 'preValidation', 'preHandler'] as const)('is refused in %s', async (hook) => {
    const { app, database } = await appThat(
      (_, start) => start(),
      {},
      { idempotency: true, [hook]: runInHook },
    )
    expect((await post(app, '/notes')).json()).toMatchObject({ code: 'PAWL_ROUTE_NOT_MARKED' })
    expect(await keysIn(database)).toEqual([])
  })

  test('has the key that the client sent, or the one that was generated', async () => {
    const keys: string[] = []
    const answer: Answer = (_, run, request) => {
      keys.push(request.pawl.key)
      return run()
    }
    const { app } = await appThat(answer, {}, { idempotency: { required: false } })
    await post(app, '/notes', { key: '"quoted"' })
    const headers = { authorization: 'Bearer ann' }
    const response = await app.inject({ method: 'POST', url: '/notes', headers })
    expect(keys).toEqual(['quoted', response.headers['idempotency-key']])
    expect(keys[1]).toMatch(/^generated-/)
  })
})
