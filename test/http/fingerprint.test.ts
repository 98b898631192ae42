import type { IdempotencyOptions, KeyScope } from '@pawl/fastify'
import { respond, retryLater } from '@pawl/core'
import type { FastifySchema, InjectOptions } from 'fastify'
import { expect, test } from 'vitest'
import { audit, json, keyRows, send } from '../support/http-requests.js'
import { type RideApp, rideApp, type RideAppOptions } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'
import { scripted, type ScriptedAnswer } from '../support/scripted-app.js'

interface Routes extends RideAppOptions {
  readonly schema?: FastifySchema
  readonly idempotency?: IdempotencyOptions<{ readonly [member: string]: unknown }>
  readonly answers?: ScriptedAnswer[]
}

/** An app that takes anything, or what the schema says, under several methods and paths. */
function takingApp(options: Routes = {}): Promise<RideApp> {
  const { schema = {}, idempotency = {}, answers = [], ...rest } = options
  const target = scripted(answers)
  return rideApp({
    pipelines: [target],
    routes: (app) => {
      for (const url of ['/things', '/other', '/things/:id'])
        app.route<{ Body: { readonly [member: string]: unknown } }>({
          method: ['POST', 'PATCH'],
          url,
          schema,
          idempotency,
          handler: (request) => request.pawl.run(target, null),
        })
    },
    ...rest,
  })
}

const THINGS = { url: '/things' }
const things = (text: string): InjectOptions => ({ ...THINGS, ...json(text) })

/** Sends both under one key, and returns what became of the second. */
async function fateOf(
  { app, database }: Pick<RideApp, 'app' | 'database'>,
  first: InjectOptions,
  second: InjectOptions,
): Promise<'replayed' | 'mismatch' | number> {
  expect((await send(app, first)).statusCode).toBe(201)
  const before = await keyRows(database)
  const answer = await send(app, second)
  if (answer.headers['idempotency-replayed'] === 'true') return 'replayed'
  if (answer.statusCode !== 422) return answer.statusCode
  expect(answer.json()).toMatchObject({ code: 'idempotency_key_reused' })
  expect(await keyRows(database)).toEqual(before)
  return 'mismatch'
}

const FULL = '{"a":1,"b":{"c":[1,2],"d":"é"}}'

test.each([
  ['members in another order', FULL, '{"b":{"d":"é","c":[1,2]},"a":1}'],
  ['other white space', FULL, ' {\n\t"a" : 1 , "b":{ "c":[ 1,2 ],"d":"é"}}\r\n'],
  ['an escape for a letter', FULL, '{"a":1,"b":{"c":[1,2],"d":"\\u00e9"}}'],
  ['1.0 for 1', FULL, '{"a":1.0,"b":{"c":[1,2],"d":"é"}}'],
  ['1e0 for 1', FULL, '{"a":1e0,"b":{"c":[10e-1,0.2E1],"d":"é"}}'],
])('%s is the same request', async (_, first, second) => {
  expect(await fateOf(await takingApp(), things(first), things(second))).toBe('replayed')
})

test.each([
  ['another value', '{"a":1}', '{"a":2}'],
  ['a number as text', '{"a":1}', '{"a":"1"}'],
  ['null for nothing', '{"a":1}', '{"a":1,"b":null}'],
  ['another member', '{"a":1}', '{"b":1}'],
  ['another order of a list', '{"a":[1,2]}', '{"a":[2,1]}'],
  ['an empty list for an empty object', '{"a":[]}', '{"a":{}}'],
  ['letters that only look alike', '{"a":"\\u00e9"}', '{"a":"e\\u0301"}'],
  ['one half of a character for another', '{"a":"\\ud800"}', '{"a":"\\ud801"}'],
])('%s is another request', async (_, first, second) => {
  expect(await fateOf(await takingApp(), things(first), things(second))).toBe('mismatch')
})

const SENT = things('{"a":1}')

test.each([
  ['path', { ...SENT, url: '/other' }],
  ['parameter of the path', { ...SENT, url: '/things/2' }],
  ['query', { ...SENT, url: '/things?a=1' }],
  ['method', { ...SENT, method: 'PATCH' as const }],
])('the same body under another %s is another request', async (_, second) => {
  expect(await fateOf(await takingApp(), { ...SENT, url: '/things/1' }, { ...SENT, url: '/things/1' })).toBe(
    'replayed',
  )
  expect(await fateOf(await takingApp(), SENT, second)).toBe('mismatch')
})

test.each([
  ['/things?a=1&b=2', '/things?b=2&a=1', 'replayed'],
  ['/things?a=1&b=2', '/things?a=1&b=3', 'mismatch'],
  ['/things?a=1', '/things?a=1&a=1', 'mismatch'],
  ['/things', '/things?', 'replayed'],
])('%s, then %s: %s', async (first, second, fate) => {
  expect(await fateOf(await takingApp(), { url: first }, { url: second })).toBe(fate)
})

test('a request without a body differs from one with any body', async () => {
  const none = { ...THINGS, payload: '' }
  expect(await fateOf(await takingApp(), none, none)).toBe('replayed')
  for (const text of ['{}', 'null', '""'])
    expect(await fateOf(await takingApp(), none, things(text))).toBe('mismatch')
})

const object = (properties: object): FastifySchema => ({ body: { type: 'object', properties } })

test('the fingerprint is of what was sent, not of what validation adds, coerces or removes', async () => {
  const schema = {
    body: {
      type: 'object',
      additionalProperties: false,
      properties: { a: { type: 'integer' }, b: { type: 'string', default: 'x' } },
    },
  }
  for (const text of ['{"a":1}', '{"a":"1"}', '{"a":1,"gone":true}'])
    expect(await fateOf(await takingApp({ schema }), things(text), things(text))).toBe('replayed')
  for (const text of ['{"a":"1"}', '{"a":1,"b":"x"}', '{"a":1,"gone":true}'])
    expect(await fateOf(await takingApp({ schema }), things('{"a":1}'), things(text))).toBe('mismatch')
})

test.each(['finished', 'interrupted'] as const)(
  'a deployment that adds an optional member with a default still recognizes a %s request',
  async (state) => {
    const answers = state === 'finished' ? [] : [retryLater]
    const before = await takingApp({ schema: object({ a: { type: 'integer' } }), answers })
    await send(before.app, SENT)
    const gained = object({ a: { type: 'integer' }, tip: { type: 'integer', default: 0 } })
    const after = await takingApp({ schema: gained, beside: before })
    const again = await send(after.app, SENT)
    expect(again.statusCode).toBe(201)
    expect(again.headers['idempotency-replayed']).toBe(state === 'finished' ? 'true' : undefined)
    expect(await audit(before.database)).toEqual(['written'])
  },
)

const at = (time: string, url = '/things') => ({ url, ...json(`{"a":1,"sent_at":"${time}"}`) })

test('the fingerprint of a route can leave out what a retry changes, and the rest still counts', async () => {
  const idempotency: Routes['idempotency'] = {
    fingerprint: ({ body: { sent_at: _sentAt, ...rest }, query }) => ({ rest, query }),
  }
  const fate = async (second: InjectOptions) => fateOf(await takingApp({ idempotency }), at('10:00'), second)
  expect(await fate(at('10:01'))).toBe('replayed')
  expect(await fate(things('{"a":2,"sent_at":"10:00"}'))).toBe('mismatch')
  expect(await fate(at('10:00', '/other'))).toBe('mismatch')
  expect(await fate(at('10:00', '/things?a=1'))).toBe('mismatch')
  expect(await fate({ ...at('10:00'), method: 'PATCH' })).toBe('mismatch')
})

test('the fingerprint function of a route is called for valid requests only, with what was sent', async () => {
  const seen: unknown[] = []
  const idempotency: Routes['idempotency'] = {
    fingerprint: ({ body }) => {
      seen.push(body)
      return body
    },
  }
  const schema = object({ a: { type: 'integer' }, b: { default: 'x' } })
  const { app } = await takingApp({ schema, idempotency })
  expect((await send(app, things('{"a":"no"}'))).statusCode).toBe(400)
  expect((await send(app, things('{"a":"1"}'))).statusCode).toBe(201)
  expect(seen).toEqual([{ a: '1' }])
})

test.each<[KeyScope, string]>([
  ['account', 'k1'],
  ['route', 'k1'],
  ['account', 'k'.repeat(255)],
  ['route', 'k'.repeat(255)],
])('with keyScope %s, the key %s at another route', async (keyScope, key) => {
  const { app, database } = await takingApp({ plugin: { keyScope } })
  const to = (url: string, as = key) => send(app, { url, headers: { 'idempotency-key': as } })
  expect((await to('/things/1')).statusCode).toBe(201)
  const elsewhere = keyScope === 'route' ? 201 : 422
  expect((await to('/other')).statusCode).toBe(elsewhere)
  expect((await to('/things/1')).headers['idempotency-replayed']).toBe('true')
  // The route is the same, but the path is not.
  expect((await to('/things/2')).statusCode).toBe(422)
  expect(await keyRows(database)).toHaveLength(keyScope === 'route' ? 2 : 1)
  expect((await to('/things/1', `${key.slice(1)}x`)).headers).not.toHaveProperty('idempotency-replayed')
})

test('a route can have its own keyScope, and each method of a path is then a route of its own', async () => {
  const { app } = await takingApp({ idempotency: { keyScope: 'route' } })
  for (const method of ['POST', 'PATCH'] as const) {
    expect((await send(app, { ...SENT, method })).statusCode).toBe(201)
    expect((await send(app, { ...SENT, method })).headers['idempotency-replayed']).toBe('true')
  }
  expect((await send(app)).statusCode).toBe(201)
})

const poisoned = (amount: number) => `{"a":1,"__proto__":{"amount":${amount}}}`

const wholeBody = ({ body }: { readonly body: object }) => body

test.each([[{}], [{ fingerprint: wholeBody }]])(
  'bodies that differ in an own __proto__ are distinguished if the server accepts them',
  async (idempotency) => {
    const app = () => takingApp({ server: { onProtoPoisoning: 'ignore' }, idempotency })
    expect(await fateOf(await app(), things(poisoned(1)), things(poisoned(1)))).toBe('replayed')
    expect(await fateOf(await app(), things(poisoned(1)), things(poisoned(2)))).toBe('mismatch')
    expect(await fateOf(await app(), things(poisoned(1)), things('{"a":1}'))).toBe('mismatch')
  },
)

test('if the server does not accept an own __proto__, it is refused before there is a row', async () => {
  const { app, database } = await takingApp()
  expect((await send(app, things(poisoned(1)))).statusCode).toBe(400)
  expect(await keyRows(database)).toEqual([])
})

const deep = (levels: number) => `{"a":${'['.repeat(levels)}${']'.repeat(levels)}}`

test.each([
  ['10000 levels of brackets', deep(10_000), {}],
  ['300 levels of brackets', deep(300), {}],
  ['a number that is infinite', '{"a":1e999}', {}],
  ['10000 levels of brackets and a fingerprint of its own', deep(10_000), { fingerprint: wholeBody }],
  ['300 levels of brackets and a fingerprint of its own', deep(300), { fingerprint: wholeBody }],
  ['an infinite number and a fingerprint of its own', '{"a":1e999}', { fingerprint: wholeBody }],
])('JSON with %s is refused with that reason, and writes no row', async (_, text, idempotency) => {
  const { app, database, log } = await takingApp({ idempotency })
  const refused = await send(app, things(text))
  expect(refused.statusCode).toBe(400)
  expect(refused.headers['content-type']).toBe('application/problem+json')
  expect(refused.json()).toMatchObject({
    code: 'invalid_input',
    detail: expect.stringContaining('cannot be stored') as string,
  })
  expect(await keyRows(database)).toEqual([])
  expect(log.filter(({ level }) => Number(level) >= 50)).toEqual([])
  expect((await send(app, things(deep(100)))).statusCode).toBe(201)
})

test('a fingerprint of the route that is not JSON is a mistake of the server, and reported in its log only', async () => {
  const { app, database, log } = await takingApp({ idempotency: { fingerprint: () => new Map() } })
  const failed = await send(app, SENT)
  expect(failed.statusCode).toBe(500)
  expect(failed.json()).toMatchObject({ code: 'internal_error' })
  const err = expect.objectContaining({ code: 'PAWL_UNREADABLE_BODY' }) as object
  expect(log).toContainEqual(expect.objectContaining({ level: 50, err }))
  expect(await keyRows(database)).toEqual([])
})

const choose = (payload: object): InjectOptions => ({ url: '/choose', payload })

test.each([
  ['counts in place of the body', undefined, { amount: 20, sent_at: 2 }, 'replayed'],
  ['tells requests apart', undefined, { amount: 30, sent_at: 1 }, 'mismatch'],
  [
    'gives way to that of the route',
    { fingerprint: ({ body }: { body: unknown }) => body as object },
    { amount: 20, sent_at: 2 },
    'mismatch',
  ],
] as const)('the fingerprint of a pipeline %s', async (_, idempotency, second, fate) => {
  const choosing = pipeline<{ amount: number; sent_at: number }>({
    name: 'choosing',
    version: 1,
    fingerprint: (input) => input.amount,
  }).finish(() => respond(201))
  const parts = await rideApp({
    pipelines: [choosing],
    routes: (app) =>
      void app.post<{ Body: { amount: number; sent_at: number } }>(
        '/choose',
        { idempotency: idempotency ?? true },
        (request) => request.pawl.run(choosing, request.body),
      ),
  })
  expect(await fateOf(parts, choose({ amount: 20, sent_at: 1 }), choose(second))).toBe(fate)
})
