import type { FastifyReply, FastifyRequest } from 'fastify'
import { describe, expect, test } from 'vitest'
import { addNote, noteApp, type NoteHandler, notesIn, post } from '../support/notes.js'
import { rideApp } from '../support/ride-app.js'
import { hear } from '../support/signals.js'

const schemaOf = (response: object) => ({ schema: { response } })
const ID_ONLY = { type: 'object', properties: { id: { type: 'integer' } } }
const secret = { id: 1, secret: 'hidden' }

/** What a handler returns after it has set up its reply. */
const having = <Payload>(_reply: FastifyReply, payload: Payload): Payload => payload

/** Route options and handlers whose answer has to be the same on an atomic route as on a plain one. */
const answers: [string, object, NoteHandler][] = [
  ['an object', {}, async () => ({ id: 1 })],
  ['an object, at once', {}, () => ({ id: 1 })],
  ['a list', {}, async () => [1, 2]],
  ['a number', {}, async () => 5],
  ['a string', {}, async () => 'text'],
  ['an empty string', {}, async () => ''],
  ['a string with a type', {}, async (_, reply) => having(reply.type('text/html'), '<p>')],
  ['JSON as a string', {}, async (_, reply) => having(reply.type('application/json'), '{"id":1}')],
  [
    'an object as another JSON',
    {},
    async (_, reply) => having(reply.type('application/hal+json'), { id: 1 }),
  ],
  ['bytes', {}, async () => Buffer.from([0, 255])],
  ['no bytes', {}, async () => Buffer.alloc(0)],
  ['bytes with a type', {}, async (_, reply) => having(reply.type('image/png'), Buffer.from([1]))],
  ['a view of bytes', {}, async () => new Uint16Array([1, 2])],
  ['nothing', {}, async () => undefined],
  ['nothing, with a status', {}, async (_, reply) => void reply.code(204)],
  ['null', {}, async () => null],
  ['null, with a status', {}, async (_, reply) => having(reply.code(204), null)],
  ['an object that looks a little like a stream', {}, async () => ({ pipe: 'copper', getReader: 1 })],
  ['a schema', schemaOf({ 200: ID_ONLY }), async () => secret],
  [
    'a schema of another status',
    schemaOf({ 200: ID_ONLY }),
    async (_, reply) => having(reply.code(201), secret),
  ],
  ['a schema of a class of statuses', schemaOf({ '2xx': ID_ONLY }), async () => secret],
  [
    'a schema per content type',
    schemaOf({ 200: { content: { 'application/json': { schema: ID_ONLY } } } }),
    async () => secret,
  ],
  [
    'a schema of any content type',
    schemaOf({ default: { content: { '*/*': { schema: ID_ONLY } } } }),
    async () => secret,
  ],
  [
    'a schema of a content type that it does not have',
    schemaOf({ 200: { content: { 'application/hal+json': { schema: ID_ONLY } } } }),
    async () => secret,
  ],
  [
    'a serializer of its own',
    {},
    async (_, reply) =>
      having(
        reply.type('text/csv').serializer((list: number[]) => list.join(';')),
        [1, 2],
      ),
  ],
  ['a link in two parts', {}, async (_, reply) => having(reply.header('link', '</a>, </b>'), 'text')],
]

/** Headers without those that always differ. */
function comparable(headers: Record<string, unknown>): object {
  const { date: _, 'idempotency-expires': __, 'idempotency-replayed': ___, ...rest } = headers
  return rest
}

test.each(answers)('%s is answered, and replayed, as on a plain route', async (_, options, handler) => {
  const { app } = await rideApp({
    routes: (server) => {
      server.post('/plain', options, handler)
      server.post('/atomic', { ...options, idempotency: { atomic: true } }, handler)
    },
  })
  const plain = await post(app, '/plain')
  for (const replayed of [undefined, 'true']) {
    const atomic = await post(app, '/atomic')
    expect(atomic.headers['idempotency-replayed']).toBe(replayed)
    expect(atomic.statusCode).toBe(plain.statusCode)
    expect(atomic.rawPayload).toEqual(plain.rawPayload)
    expect(comparable(atomic.headers)).toEqual(comparable(plain.headers))
  }
})

test('a cookie is sent once, and is never replayed', async () => {
  const { app, database } = await noteApp(async (_, reply) => {
    reply.header('set-cookie', 'session=1').header('set-cookie', 'theme=dark')
    return 'welcome'
  })
  const first = await post(app, '/notes')
  expect(first.headers['set-cookie']).toEqual(['session=1', 'theme=dark'])
  const again = await post(app, '/notes')
  expect([again.body, again.headers['set-cookie']]).toEqual(['welcome', undefined])
  const [row] = await database.rows('SELECT response_headers::text AS headers FROM pawl.idempotency_keys')
  expect(row).toEqual({ headers: '{"content-type":"text/plain; charset=utf-8"}' })
})

/** An app whose handler loses its first transactions to another session. */
async function conflictApp(collisions: number) {
  let runs = 0
  /** Reads, lets another session change what was read, and then writes, which fails with 40001. */
  const collide = async ({ tx }: FastifyRequest) => {
    await tx.selectFrom('rides').selectAll().execute()
    await opened.database.rows('UPDATE rides SET amount = 1')
    await tx.updateTable('rides').set({ amount: 2 }).execute()
  }
  const handler: NoteHandler = async (request, reply) => {
    const nth = ++runs
    await addNote(request, `run ${nth}`)
    if (nth > collisions) return { nth }
    reply
      .code(202)
      .headers({ 'x-try': `${nth}`, 'set-cookie': `try=${nth}` })
      .type('text/html')
    await collide(request)
    return 'no conflict'
  }
  const opened = await noteApp(handler, {
    settings: { isolation: 'serializable', transactionRetries: 1 },
    before: (app) => {
      app.addHook('onRequest', async (_, reply) => void reply.header('x-hook', 'kept'))
    },
  })
  await opened.database.rows(`INSERT INTO rides (rider, amount) VALUES ('one', 0)`)
  return opened
}

describe('a transaction that meets a conflict', () => {
  test('runs the handler again, with a reply that has nothing left of the first try', async () => {
    const retried = hear('pawl:phase_retried')
    const { app, database } = await conflictApp(1)
    const response = await post(app, '/notes')
    expect([response.statusCode, response.json()]).toEqual([200, { nth: 2 }])
    expect(response.headers).toMatchObject({
      'x-hook': 'kept',
      'content-type': 'application/json; charset=utf-8',
    })
    expect(response.headers['x-try']).toBeUndefined()
    expect(response.headers['set-cookie']).toBeUndefined()
    expect(retried.map(({ error }) => error)).toMatchObject([{ code: '40001' }])
    expect(await notesIn(database)).toEqual(['run 2'])
  })

  test('too often is reported as a temporary problem, without anything that the handler has set', async () => {
    const { app, database } = await conflictApp(2)
    const response = await post(app, '/notes')
    expect([response.statusCode, response.json()]).toMatchObject([503, { code: 'temporarily_unavailable' }])
    expect(response.headers['x-try']).toBeUndefined()
    expect(response.headers).toMatchObject({ 'x-hook': 'kept', 'content-type': 'application/problem+json' })
    expect(await notesIn(database)).toEqual([])
    expect((await post(app, '/notes')).json()).toEqual({ nth: 3 })
  })
})
