import { STATUS_CODES } from 'node:http'
import { respond, retryLater } from '@pawl/core'
import { type ProblemCode, type ProfileName, problems } from '@pawl/fastify'
import type { LightMyRequestResponse } from 'fastify'
import pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { keyRows, send, sendWithoutKey } from '../support/http-requests.js'
import { rideApp } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'
import { appOf, scripted, TARGET } from '../support/scripted-app.js'

interface Situation {
  /** What clients of each profile are told. */
  readonly status: Readonly<Record<ProfileName, number>>
  readonly stripe: {
    readonly type: string
    readonly code?: string
    readonly shouldRetry: 'true' | 'false'
  }
  readonly retryAfter: boolean
  readonly provoke: (profile: ProfileName) => Promise<LightMyRequestResponse>
}

const both = (status: number) => ({ ietf: status, stripe: status })
const refusal = { type: 'invalid_request_error', shouldRetry: 'false' } as const
const conflict = { type: 'idempotency_error' } as const
const passing = { type: 'api_error', shouldRetry: 'true' } as const
const lasting = { type: 'api_error', shouldRetry: 'false' } as const

const CARD = '4111 1111 1111 1111'

const fail = (): never => {
  throw new Error('no')
}

/** Sends a ride with this as the time of its first attempt. */
async function sendAt(profile: ProfileName, moment: string): Promise<LightMyRequestResponse> {
  const { app } = await rideApp({ plugin: { profile, sentAt: { maxAgeMs: 1_000 } } })
  return send(app, { headers: { 'idempotency-sent-at': moment } })
}

const situations: Record<ProblemCode, Situation> = {
  idempotency_key_missing: {
    status: both(400),
    stripe: refusal,
    retryAfter: false,
    provoke: async (profile) => sendWithoutKey((await rideApp({ plugin: { profile } })).app),
  },
  idempotency_key_invalid: {
    status: both(400),
    stripe: refusal,
    retryAfter: false,
    provoke: async (profile) =>
      send((await rideApp({ plugin: { profile } })).app, { headers: { 'idempotency-key': '""' } }),
  },
  idempotency_key_repeated: {
    status: both(400),
    stripe: refusal,
    retryAfter: false,
    provoke: async (profile) =>
      send((await rideApp({ plugin: { profile } })).app, { headers: { 'idempotency-key': 'a, b' } }),
  },
  idempotency_key_unsuitable: {
    status: both(400),
    stripe: refusal,
    retryAfter: false,
    provoke: async (profile) =>
      send((await rideApp({ plugin: { profile } })).app, { headers: { 'idempotency-key': CARD } }),
  },
  sent_at_missing: {
    status: both(400),
    stripe: refusal,
    retryAfter: false,
    provoke: async (profile) =>
      send((await rideApp({ plugin: { profile, sentAt: { maxAgeMs: 1_000, required: true } } })).app),
  },
  sent_at_invalid: {
    status: both(400),
    stripe: refusal,
    retryAfter: false,
    provoke: async (profile) => sendAt(profile, 'yesterday'),
  },
  sent_at_too_old: {
    status: both(400),
    stripe: refusal,
    retryAfter: false,
    provoke: async (profile) => sendAt(profile, '@1'),
  },
  sent_at_in_future: {
    status: both(400),
    stripe: refusal,
    retryAfter: false,
    provoke: async (profile) => sendAt(profile, '@99999999999'),
  },
  idempotency_key_reused: {
    status: { ietf: 422, stripe: 400 },
    stripe: { ...conflict, shouldRetry: 'false' },
    retryAfter: false,
    provoke: async (profile) => {
      const { app } = await rideApp({ plugin: { profile } })
      await send(app)
      return send(app, { payload: { amount: 21 } })
    },
  },
  key_expired: {
    status: both(410),
    stripe: refusal,
    retryAfter: false,
    provoke: async (profile) => {
      const { app, database } = await rideApp({ plugin: { profile } })
      await send(app)
      await database.rows('DELETE FROM pawl.idempotency_keys')
      return send(app)
    },
  },
  request_in_progress: {
    status: both(409),
    stripe: { ...conflict, code: 'idempotency_key_in_use', shouldRetry: 'true' },
    retryAfter: true,
    provoke: async (profile) => {
      const { app, provider } = await rideApp({ plugin: { profile } })
      await provider.willMeet('hold_then_execute')
      const first = send(app)
      await provider.arrived()
      const second = await send(app)
      await provider.letGo()
      await first
      return second
    },
  },
  invalid_input: {
    status: both(400),
    stripe: refusal,
    retryAfter: false,
    provoke: async (profile) => {
      const Input = z.object({ a: z.object({ b: z.number() }) })
      const strict = pipeline({ name: 'strict', version: 1, input: Input }).finish(() => respond(200))
      const { app } = await rideApp({
        plugin: { profile },
        pipelines: [strict],
        routes: (server) =>
          void server.post<{ Body: z.infer<typeof Input> }>('/target', { idempotency: true }, (request) =>
            request.pawl.run(strict, request.body),
          ),
      })
      return send(app, { ...TARGET, payload: { a: { b: 'x' } } })
    },
  },
  request_not_found: {
    status: both(404),
    stripe: refusal,
    retryAfter: false,
    provoke: async (profile) => {
      const { app } = await rideApp({ plugin: { profile, respondAsync: true } })
      return send(app, { method: 'GET', url: '/rides/idempotent-requests/none', payload: '' })
    },
  },
  request_too_large: {
    status: both(413),
    stripe: refusal,
    retryAfter: false,
    provoke: async (profile) =>
      send((await rideApp({ plugin: { profile }, engine: { caps: { inputBytes: 5 } } })).app),
  },
  too_many_requests: {
    status: both(429),
    stripe: { type: 'invalid_request_error', shouldRetry: 'true' },
    retryAfter: true,
    provoke: async (profile) => {
      const limits = { newKeys: { max: 1, perMs: 60_000 } }
      const { app } = await rideApp({ plugin: { profile }, engine: { limits } })
      await send(app)
      const refused = await send(app, { headers: { 'idempotency-key': 'another' } })
      expect(refused.headers['ratelimit-policy']).toBe('"new_keys";q=1;w=60')
      expect(refused.headers['ratelimit']).toMatch(/^"new_keys";r=0;t=(59|60)$/)
      return refused
    },
  },
  temporarily_unavailable: {
    status: both(503),
    stripe: passing,
    retryAfter: true,
    provoke: async (profile) =>
      send((await appOf(scripted([retryLater]), { plugin: { profile } })).app, TARGET),
  },
  unexpected_error: {
    status: both(500),
    stripe: passing,
    retryAfter: true,
    provoke: async (profile) => send((await appOf(scripted([fail]), { plugin: { profile } })).app, TARGET),
  },
  internal_error: {
    status: both(500),
    stripe: lasting,
    retryAfter: false,
    provoke: async (profile) => send((await rideApp({ plugin: { profile, scope: () => null } })).app),
  },
  store_unavailable: {
    status: both(503),
    stripe: passing,
    retryAfter: true,
    provoke: async (profile) => {
      const pool = new pg.Pool({ connectionString: 'postgresql://nobody@127.0.0.1:1/nothing' })
      onTestFinished(() => pool.end())
      return send((await rideApp({ plugin: { profile }, engine: { pool } })).app)
    },
  },
  version_not_available: {
    status: both(503),
    stripe: passing,
    retryAfter: true,
    provoke: async (profile) => {
      const older = await appOf(scripted([retryLater]))
      await send(older.app, TARGET)
      const next = pipeline<null>({ name: 'scripted', version: 2 }).finish(() => respond(200))
      return send((await appOf(next, { beside: older, plugin: { profile } })).app, TARGET)
    },
  },
  request_stuck: {
    status: both(500),
    stripe: lasting,
    retryAfter: false,
    provoke: async (profile) => {
      const target = pipeline<null>({ name: 'failing', version: 1, maxAttempts: 1 }).finish(fail)
      return send((await appOf(target, { plugin: { profile } })).app, TARGET)
    },
  },
}

const codes = Object.keys(situations) as ProblemCode[]

test.each(codes)('%s as problem details of RFC 9457', async (code) => {
  const { status, retryAfter, provoke } = situations[code]
  const { statusCode, headers, body } = await provoke('ietf')
  const problem = JSON.parse(body) as Record<string, unknown>
  expect(statusCode).toBe(status.ietf)
  expect(headers['content-type']).toBe('application/problem+json')
  expect(problem).toMatchObject({
    type: 'about:blank',
    // RFC 9457 asks for this if the type says no more than the status does.
    title: STATUS_CODES[status.ietf],
    status: status.ietf,
    detail: expect.stringMatching(/./) as string,
    code,
  })
  const known = ['type', 'title', 'status', 'detail', 'code', 'instance', 'errors']
  expect(Object.keys(problem).filter((member) => !known.includes(member))).toEqual([])
  expect('retry-after' in headers).toBe(retryAfter)
  expect(headers).not.toHaveProperty('stripe-should-retry')
  expect(headers).not.toHaveProperty('idempotency-key')
  expect(headers['content-length']).toBe(String(Buffer.byteLength(body)))
})

test.each(codes)("%s in the shape of Stripe's errors", async (code) => {
  const { status, retryAfter, stripe, provoke } = situations[code]
  const { statusCode, headers, body } = await provoke('stripe')
  expect(statusCode).toBe(status.stripe)
  expect(headers['content-type']).toBe('application/json; charset=utf-8')
  expect(JSON.parse(body)).toMatchObject({
    error: {
      type: stripe.type,
      code: stripe.code ?? code,
      message: expect.stringMatching(/./) as string,
    },
  })
  expect(Object.keys(JSON.parse(body) as object)).toEqual(['error'])
  expect(body).not.toContain('doc_url')
  expect(headers['stripe-should-retry']).toBe(stripe.shouldRetry)
  expect('retry-after' in headers).toBe(retryAfter)
})

test('each profile marks a replay in its own way, and the stripe profile sends the key back', async () => {
  const [ietf, stripe] = [await rideApp(), await rideApp({ plugin: { profile: 'stripe' } })]
  for (const { app } of [ietf, stripe]) await send(app)
  const [one, other] = [await send(ietf.app), await send(stripe.app)]
  expect([one.statusCode, other.statusCode]).toEqual([201, 201])
  expect(one.headers['idempotency-replayed']).toBe('true')
  expect(one.headers).not.toHaveProperty('idempotent-replayed')
  expect(one.headers).not.toHaveProperty('idempotency-key')
  expect(other.headers['idempotent-replayed']).toBe('true')
  expect(other.headers).not.toHaveProperty('idempotency-replayed')
  expect(other.headers['idempotency-key']).toBe('k1')
  expect(other.headers['idempotency-expires']).toBeDefined()
})

test("a 503 of a phase tells Stripe's SDKs to come back, and keeps its own words", async () => {
  const target = scripted([() => respond(503, { sorry: true })])
  const { app } = await appOf(target, { plugin: { profile: 'stripe' } })
  const { headers, body } = await send(app, TARGET)
  expect(body).toBe('{"sorry":true}')
  expect(headers).toMatchObject({ 'stripe-should-retry': 'true', 'idempotency-key': 'k1' })
})

test("in the shape of Stripe's errors, the first wrong member is the param, and a stuck request has its id", async () => {
  const invalid = await situations.invalid_input.provoke('stripe')
  expect(invalid.json()).toMatchObject({ error: { param: 'a.b' } })
  const target = pipeline<null>({ name: 'failing', version: 1, maxAttempts: 1 }).finish(fail)
  const { app, database } = await appOf(target, { plugin: { profile: 'stripe' } })
  const stuck = await send(app, TARGET)
  const [row] = await keyRows(database)
  expect(stuck.json()).toMatchObject({ error: { request_id: row?.id } })
})

test.each(['ietf', 'stripe'] as const)(
  'the %s profile links to the address that the plugin is given',
  async (profile) => {
    const { app } = await rideApp({ plugin: { profile, problemBaseUrl: 'https://example.com/errors' } })
    const answer = await sendWithoutKey(app)
    expect(answer.body).toContain('"https://example.com/errors#idempotency_key_missing"')
    if (profile === 'ietf')
      expect(answer.json()).toMatchObject({ title: problems.idempotency_key_missing.title })
  },
)

test.each(codes)('%s has no link unless the plugin is given an address', async (code) => {
  for (const profile of ['ietf', 'stripe'] as const) {
    const { body } = await situations[code].provoke(profile)
    expect(body, profile).not.toMatch(/https?:/)
  }
})

test('a problem keeps all its members if the route has a response schema of its own for that status', async () => {
  const target = scripted([])
  const schema = { response: { 400: { type: 'object', properties: { only: { type: 'string' } } } } }
  const { app } = await rideApp({
    pipelines: [target],
    routes: (server) =>
      void server.post('/target', { schema, idempotency: true }, (request) => request.pawl.run(target, null)),
  })
  const answer = await sendWithoutKey(app, TARGET)
  expect(answer.json()).toMatchObject({ code: 'idempotency_key_missing', status: 400 })
})
