import { type Pipeline, respond, retryLater } from '@pawl/core'
import { describe, expect, test } from 'vitest'
import { noteApp, post } from '../support/notes.js'
import { type RideApp, rideApp, type RideAppOptions } from '../support/ride-app.js'
import { type Database, pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'

const INFO = 30
const WARN = 40
const ERROR = 50

interface OutcomeLine {
  readonly level: number
  readonly idempotency: Record<string, unknown>
}

/** The lines that report an outcome. */
const outcomesIn = (log: RideApp['log']) =>
  log.filter((line) => 'idempotency' in line) as unknown as OutcomeLine[]

const ride = (app: RideApp['app'], amount = 20) => post(app, '/rides', { payload: { amount } })

const withoutAnn = (text: string): string => text.replaceAll('Ann', '[name]')

/** Fails as long as the switch is on. */
function fragile(failing: { on: boolean }, maxAttempts: number): Pipeline<Database, null> {
  return pipeline<null>({ name: 'fragile', version: 1, maxAttempts })
    .local('tried', () => {
      if (failing.on) throw new Error('a bug')
    })
    .finish(() => respond(200))
}

const withFragile = (target: Pipeline<Database, null>): RideAppOptions => ({
  pipelines: [target],
  routes: (app) =>
    void app.post('/fragile', { idempotency: true }, (request) => request.pawl.run(target, null)),
})

describe('the outcome is a field of one line, at a level that fits whoever has to act on it', () => {
  test('completed and replayed', async () => {
    const finished = hear('pawl:finished')
    const { app, log } = await rideApp()
    await ride(app)
    await ride(app)
    const [message] = finished
    const common = { keyHash: message?.keyHash, keyId: message?.keyId, pipeline: 'create-ride', status: 201 }
    expect(message?.keyHash).toMatch(/^[0-9a-f]{16}$/)
    expect(outcomesIn(log)).toMatchObject([
      { level: INFO, idempotency: { outcome: 'completed', ...common } },
      { level: INFO, idempotency: { outcome: 'replayed', ...common } },
    ])
  })

  test('in_flight', async () => {
    const { app, log, provider } = await rideApp()
    await provider.willMeet('hold_then_execute')
    const first = ride(app)
    await provider.arrived()
    await ride(app)
    expect(outcomesIn(log)).toMatchObject([
      { level: INFO, idempotency: { outcome: 'in_flight', leaseLeftMs: expect.any(Number) } },
    ])
    await provider.letGo()
    await first
  })

  test('retry_later and stuck, without what the engine is told to take out', async () => {
    const target = pipeline<null>({ name: 'fragile', version: 1, maxAttempts: 2 })
      .local('tried', () => {
        throw new Error('Ann has moved', { cause: new Error('Ann left') })
      })
      .finish(() => respond(200))
    const { app, log, database } = await rideApp({ ...withFragile(target), engine: { redact: withoutAnn } })
    await post(app, '/fragile')
    await database.rows('UPDATE pawl.idempotency_keys SET run_after = NULL')
    await post(app, '/fragile')
    expect(outcomesIn(log)).toMatchObject([
      { idempotency: { outcome: 'retry_later' }, err: { message: '[name] has moved: [name] left' } },
      { idempotency: { outcome: 'stuck', lastError: expect.stringContaining('[name] has moved') as string } },
    ])
    expect(JSON.stringify(log)).not.toContain('Ann')
  })

  test('mismatch', async () => {
    const { app, log } = await rideApp()
    await ride(app)
    await ride(app, 30)
    expect(outcomesIn(log)[1]).toMatchObject({
      level: WARN,
      idempotency: { outcome: 'mismatch', differs: 'request' },
    })
  })

  test('retry_later, as a warning if it will pass', async () => {
    const { app, log, provider } = await rideApp()
    await provider.willMeet('refuse_500')
    await ride(app)
    expect(outcomesIn(log)).toMatchObject([
      {
        level: WARN,
        idempotency: { outcome: 'retry_later', reason: 'asked_by_phase', recoveryPoint: 'ride_created' },
        err: { message: expect.stringContaining('provider answered 500') },
      },
    ])
  })

  test('retry_later without an error, if none was thrown', async () => {
    const patient = pipeline<null>({ name: 'patient', version: 1 }).finish(() => retryLater())
    const { app, log } = await rideApp(withFragile(patient))
    await post(app, '/fragile', { payload: {} })
    const [line] = outcomesIn(log)
    expect(line).toMatchObject({ level: WARN, idempotency: { outcome: 'retry_later', pipeline: 'patient' } })
    expect(line).not.toHaveProperty('err')
  })

  test('retry_later, as an error if nobody expected it', async () => {
    const { app, log } = await rideApp(withFragile(fragile({ on: true }, 9)))
    await post(app, '/fragile')
    expect(outcomesIn(log)).toMatchObject([
      {
        level: ERROR,
        idempotency: { outcome: 'retry_later', reason: 'unknown_error', pipeline: 'fragile' },
        err: { message: 'a bug' },
      },
    ])
  })

  test('an error is logged without its secrets, and without what libraries attach to it', async () => {
    const target = pipeline<null>({ name: 'leaky', version: 1 })
      .local('tried', () => {
        const config = { headers: { authorization: 'Bearer topsecret' } }
        throw Object.assign(new Error('key sk_live_abc of 4242424242424242 refused'), {
          config,
          code: 'E_PAY',
        })
      })
      .finish(() => respond(200))
    const { app, log } = await rideApp(withFragile(target))
    await post(app, '/fragile')
    expect(outcomesIn(log)).toMatchObject([
      { err: { type: 'Error', code: 'E_PAY', message: 'key [key] of [number] refused' } },
    ])
    expect(JSON.stringify(log)).not.toMatch(/topsecret|sk_live|4242/)
  })

  test('an error whose message is not text is answered and logged like any other', async () => {
    const target = pipeline<null>({ name: 'odd', version: 1 })
      .local('tried', () => {
        throw Object.assign(new Error(), { message: { code: 'declined' } })
      })
      .finish(() => respond(200))
    const { app, log } = await rideApp(withFragile(target))
    const failed = await post(app, '/fragile')
    expect(failed.headers['content-type']).toContain('application/problem+json')
    expect(failed.json()).toMatchObject({ status: 500, code: 'unexpected_error' })
    expect(outcomesIn(log)).toMatchObject([
      {
        level: ERROR,
        idempotency: { outcome: 'retry_later' },
        err: { message: '(a message of type object)' },
      },
    ])
  })

  test('stuck', async () => {
    const { app, log } = await rideApp(withFragile(fragile({ on: true }, 1)))
    await post(app, '/fragile')
    expect(outcomesIn(log)).toMatchObject([
      {
        level: ERROR,
        idempotency: { outcome: 'stuck', reason: 'attempts_exhausted', lastError: 'Error: a bug' },
      },
    ])
  })

  test('refused', async () => {
    const { app, database, log } = await rideApp(withFragile(fragile({ on: true }, 9)))
    await post(app, '/fragile')
    await database.rows('UPDATE pawl.idempotency_keys SET version = 7')
    await post(app, '/fragile')
    expect(outcomesIn(log)[1]).toMatchObject({
      level: ERROR,
      idempotency: { outcome: 'refused', version: 7 },
    })
  })

  test('unavailable', async () => {
    const { app, engine, log } = await rideApp()
    await engine.close()
    await ride(app)
    expect(outcomesIn(log)).toMatchObject([
      { level: ERROR, idempotency: { outcome: 'unavailable' }, err: { code: 'PAWL_CLOSING' } },
    ])
  })

  test('an error of an atomic handler, which Fastify logs at the level of its status', async () => {
    const { app, log } = await noteApp(async (request) => {
      throw Object.assign(new Error('refused'), request.body)
    })
    await post(app, '/notes', { key: 'a', payload: { statusCode: 404 } })
    await post(app, '/notes', { key: 'b', payload: {} })
    expect(outcomesIn(log)).toMatchObject([
      { level: INFO, idempotency: { outcome: 'threw', pipeline: 'atomic.post.notes' } },
      { level: INFO, idempotency: { outcome: 'threw' } },
    ])
    const errors = log.filter((line) => 'err' in line).map(({ level }) => level)
    expect(errors).toEqual([INFO, ERROR])
  })

  test('not_accepted, with the code of the problem, because nothing was looked up', async () => {
    const { app, log } = await rideApp()
    await post(app, '/rides', { key: 'a, b', payload: { amount: 1 } })
    await app.inject({
      method: 'POST',
      url: '/rides',
      headers: { authorization: 'Bearer ann' },
      payload: { amount: 1 },
    })
    expect(outcomesIn(log)).toMatchObject([
      { level: INFO, idempotency: { outcome: 'not_accepted', code: 'idempotency_key_repeated' } },
      { level: INFO, idempotency: { outcome: 'not_accepted', code: 'idempotency_key_missing' } },
    ])
  })

  test('a key that was generated for the client is distinguished from one that it sent', async () => {
    const { app, log } = await rideApp({ route: { required: false } })
    await app.inject({
      method: 'POST',
      url: '/rides',
      headers: { authorization: 'Bearer ann' },
      payload: { amount: 1 },
    })
    await ride(app)
    expect(outcomesIn(log)).toMatchObject([
      { idempotency: { outcome: 'completed', generatedKey: true } },
      { idempotency: { outcome: 'completed', generatedKey: false } },
    ])
  })

  test('that of an atomic handler, under the name of its route', async () => {
    const { app, log } = await rideApp({
      routes: (server) =>
        void server.post('/v1/notes/:id', { idempotency: { atomic: true } }, async () => 'noted'),
    })
    await post(app, '/v1/notes/7')
    expect(outcomesIn(log)).toMatchObject([
      { level: INFO, idempotency: { outcome: 'completed', pipeline: 'atomic.post.v1.notes' } },
    ])
  })
})

describe('no line contains the key, the scope or the content', () => {
  const KEY = 'key-4e1f0c52'
  const SCOPE = 'tenant-99ab37'
  const CONTENT = 'body-d41d8c'
  const COOKIE = 'cookie-7a3b'

  const secretly = (app: RideApp['app'], url: string, more: { key?: string; payload?: object } = {}) =>
    app.inject({
      method: 'POST',
      url,
      headers: {
        authorization: `Bearer ${SCOPE}`,
        cookie: COOKIE,
        'idempotency-key': more.key ?? KEY,
      },
      payload: { amount: 20, note: CONTENT, ...more.payload },
    })

  function expectSilent(log: RideApp['log']): void {
    const lines = log.map((line) => JSON.stringify(line))
    expect(lines.length).toBeGreaterThan(0)
    for (const secret of [KEY, SCOPE, CONTENT, COOKIE]) {
      expect(lines.filter((line) => line.includes(secret))).toEqual([])
    }
  }

  test.each(['account', 'route'] as const)('whatever becomes of the request, by %s', async (keyScope) => {
    const failing = { on: true }
    const target = fragile(failing, 2)
    const { app, database, engine, log } = await rideApp({
      ...withFragile(target),
      plugin: { keyScope, profile: 'stripe' },
    })
    await secretly(app, '/rides')
    await secretly(app, '/rides')
    await secretly(app, '/rides', { payload: { amount: 30 } })
    await secretly(app, '/rides', { payload: { amount: 'many' } })
    await secretly(app, '/fragile', { key: `${KEY}-2` })
    await secretly(app, '/fragile', { key: `${KEY}-2` })
    await secretly(app, '/fragile', { key: `${KEY}-3` })
    await database.rows(`UPDATE pawl.idempotency_keys SET version = 7 WHERE status = 'running'`)
    await secretly(app, '/fragile', { key: `${KEY}-3` })
    await engine.close()
    await secretly(app, '/rides', { key: `${KEY}-4` })
    expect(outcomesIn(log).map(({ idempotency }) => idempotency['outcome'])).toEqual([
      'completed',
      'replayed',
      'mismatch',
      'retry_later',
      'stuck',
      'retry_later',
      'refused',
      'unavailable',
    ])
    expectSilent(log)
  })

  test('nor a key that is refused or was generated, or a scope that is too long', async () => {
    const { app, log } = await rideApp({
      plugin: { scope: (request) => (request.headers['x-long'] === undefined ? SCOPE : SCOPE.repeat(20)) },
      routes: (server) =>
        void server.post('/notes', { idempotency: { required: false, atomic: true } }, async () => 'noted'),
    })
    await secretly(app, '/rides', { key: `"${KEY}` })
    await secretly(app, '/rides', { key: KEY.repeat(50) })
    const headers = { authorization: `Bearer ${SCOPE}` }
    const made = await app.inject({ method: 'POST', url: '/notes', headers })
    const tooLong = { ...headers, 'idempotency-key': KEY, 'x-long': 'yes' }
    const refused = await app.inject({ method: 'POST', url: '/notes', headers: tooLong })
    expect([made.statusCode, refused.statusCode]).toEqual([200, 500])
    expectSilent(log)
    expect(JSON.stringify(log)).not.toContain(made.headers['idempotency-key'])
  })
})
