import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { describe, expect, test } from 'vitest'
import { addNote, keysIn, noteApp, notesIn, post } from '../support/notes.js'

/** Ways to answer that cannot be stored, or that would come before the commit. */
const refusals: [string, (reply: FastifyReply) => unknown][] = [
  ['reply.send', (reply) => reply.send('early')],
  ['reply.redirect', (reply) => reply.redirect('/elsewhere')],
  ['reply.hijack', (reply) => reply.hijack()],
  ['reply.callNotFound', (reply) => reply.callNotFound()],
  ['its reply', (reply) => reply.code(201)],
  ['a stream of Node', async () => Readable.from(['text'])],
  ['a web stream', async () => new ReadableStream()],
  ['a Response', async () => new Response('text')],
  [
    'an async generator',
    async function* generate() {
      yield 'text'
    },
  ],
]

describe('an answer that cannot wait for the commit, or cannot be stored, is refused', () => {
  test.each(refusals)('%s', async (_, answer) => {
    const { app, database } = await noteApp(async (request, reply) => {
      await addNote(request)
      return answer(reply)
    })
    // A retry is refused in the same way.
    for (let nth = 1; nth <= 2; nth++) {
      const response = await post(app, '/notes')
      expect([response.statusCode, response.json()]).toMatchObject([500, { code: 'PAWL_REPLY_IN_ATOMIC' }])
    }
    expect(await notesIn(database)).toEqual([])
    expect(await keysIn(database)).toEqual([])
  })

  test('its reply, returned by a handler that is not async', async () => {
    const { app, database } = await noteApp((_, reply) => reply.code(201))
    expect((await post(app, '/notes')).json()).toMatchObject({ code: 'PAWL_REPLY_IN_ATOMIC' })
    expect(await keysIn(database)).toEqual([])
  })

  test('one that a callback sends, and the client never sees its success', async () => {
    const { app, database } = await noteApp((request, reply) => {
      void addNote(request).then(
        () => reply.send('early'),
        () => reply.send('late'),
      )
    })
    const response = await post(app, '/notes')
    expect(response.statusCode).toBe(500)
    // The callback may run before or after the handler is refused.
    expect(response.json<{ code: string }>().code).toMatch(/^PAWL_(REPLY_IN_ATOMIC|PIPELINE_NOT_RUN)$/)
    // The answer may have gone out before the transaction was rolled back: closing waits for that.
    await app.close()
    expect(await notesIn(database)).toEqual([])
    expect(await keysIn(database)).toEqual([])
  })

  test('one that is written to reply.raw: nothing is stored, and the log says why', async () => {
    const { app, database, log } = await noteApp(async (request, reply) => {
      await addNote(request)
      reply.raw.end('early')
      return 'late'
    })
    await post(app, '/notes')
    await app.close()
    expect(await notesIn(database)).toEqual([])
    const errors = log.filter((line) => line['level'] === 50).map((line) => line['err'])
    expect(errors).toContainEqual(expect.objectContaining({ code: 'PAWL_REPLY_IN_ATOMIC' }))
  })
})

test('nothing that the handler has set is sent with the refusal, whose status is never a success', async () => {
  const { app } = await noteApp(
    (_, reply) => reply.code(201).header('set-cookie', 'session=1').send('early'),
    {
      // An error handler that leaves the status to others.
      before: (server) => {
        server.setErrorHandler((error, _request, reply) => reply.send({ told: (error as Error).message }))
      },
    },
  )
  const response = await post(app, '/notes')
  expect([response.statusCode, response.headers['set-cookie']]).toEqual([500, undefined])
  expect(response.json<{ told: string }>().told).toContain(
    'The atomic handler of POST /notes called reply.send()',
  )
})
