import type { FastifyInstance, FastifyRequest } from 'fastify'
import { describe, expect, test } from 'vitest'
import { addNote, keysIn, noteApp, notesIn, post } from '../support/notes.js'
import { rideApp } from '../support/ride-app.js'

const notFound = () => Object.assign(new Error('no such book'), { statusCode: 404 })

/** The application's own way to report errors. */
const tellErrors = (app: FastifyInstance) =>
  app.setErrorHandler<Error & { statusCode?: number }>((error, _request, reply) =>
    reply.code(error.statusCode ?? 500).send({ told: error.message }),
  )

describe('rows and response', () => {
  test('are stored together, and replayed without running the handler', async () => {
    let runs = 0
    const { app, database } = await noteApp(async (request, reply) => {
      runs += 1
      const { id } = await addNote(request)
      reply
        .code(201)
        .headers({ location: `/notes/${id}`, etag: '"1"', 'x-kept': 'yes', 'x-request-id': 'yes' })
      return { id }
    })
    const first = await post(app, '/notes')
    const again = await post(app, '/notes')
    expect([first.statusCode, again.statusCode, runs]).toEqual([201, 201, 1])
    expect(again.rawPayload).toEqual(first.rawPayload)
    const { 'x-request-id': once, date: _, ...kept } = first.headers
    expect(once).toBe('yes')
    const { date: __, ...replayed } = again.headers
    expect(replayed).toEqual({ ...kept, 'idempotency-replayed': 'true' })
    expect(kept).toMatchObject({ location: `/notes/${first.json<{ id: string }>().id}`, 'x-kept': 'yes' })
    expect(await notesIn(database)).toEqual(['noted'])
  })

  test('are both undone when the handler throws', async () => {
    const { app, database } = await noteApp(async (request) => {
      await addNote(request)
      throw new Error('a bug')
    })
    expect((await post(app, '/notes')).statusCode).toBe(500)
    expect(await notesIn(database)).toEqual([])
    expect(await keysIn(database)).toEqual([])
  })

  test('are not stored for a status that means "not now", which is sent with its body', async () => {
    const { app, database } = await noteApp(async (request, reply) => {
      await addNote(request)
      reply.code(503)
      return { try: 'later' }
    })
    const response = await post(app, '/notes')
    expect([response.statusCode, response.json()]).toEqual([503, { try: 'later' }])
    expect(response.headers['retry-after']).toBeDefined()
    expect(await notesIn(database)).toEqual([])
  })

  test('are written once, by fifty requests at the same time', async () => {
    let runs = 0
    const { app, database } = await noteApp(
      async (request) => {
        runs += 1
        return addNote(request)
      },
      { plugin: { onConflict: { waitMs: 20_000 } } },
    )
    const responses = await Promise.all(Array.from({ length: 50 }, () => post(app, '/notes')))
    expect(new Set(responses.map(({ statusCode }) => statusCode))).toEqual(new Set([200]))
    expect(new Set(responses.map(({ body }) => body)).size).toBe(1)
    expect(runs).toBe(1)
    expect(await notesIn(database)).toEqual(['noted'])
  })
})

// More often than the key of a pipeline may fail before it is stuck.
const OFTEN = 12

describe('an error of the handler', () => {
  test.each([
    ['with a status of its own', notFound, 404, 'no such book'],
    ['that nobody expected', () => new Error('a bug'), 500, 'a bug'],
  ])('%s is reported by the application, every time it happens', async (_, make, status, told) => {
    let failures = OFTEN
    const { app, database } = await rideApp({
      routes: (server) => {
        tellErrors(server)
        server.post('/notes', { idempotency: { atomic: true } }, async (request) => {
          const note = await addNote(request)
          if (failures-- > 0) throw make()
          return note
        })
      },
    })
    for (let nth = 0; nth < OFTEN; nth++) {
      const response = await post(app, '/notes')
      expect([response.statusCode, response.json()]).toEqual([status, { told }])
      expect(await notesIn(database)).toEqual([])
    }
    expect(await keysIn(database)).toEqual([])
    expect((await post(app, '/notes')).statusCode).toBe(200)
    expect(await notesIn(database)).toEqual(['noted'])
  })

  test('leaves the key free for a request with other content', async () => {
    const { app, database } = await noteApp(async (request) => {
      const { what } = request.body as { what: string }
      if (what === '') throw Object.assign(new Error('empty'), { statusCode: 422 })
      return addNote(request, what)
    })
    expect((await post(app, '/notes', { payload: { what: '' } })).statusCode).toBe(422)
    expect((await post(app, '/notes', { payload: { what: 'corrected' } })).statusCode).toBe(200)
    expect(await notesIn(database)).toEqual(['corrected'])
  })

  test('is reported by Fastify if the application has no error handler', async () => {
    const { app } = await noteApp(() => Promise.reject(notFound()))
    expect((await post(app, '/notes')).json()).toMatchObject({ statusCode: 404, message: 'no such book' })
  })

  test('may come from a foreign request, which strict mode does not allow in a transaction', async () => {
    const { app, database, provider } = await rideApp({
      routes: (server) => {
        server.post('/notes', { idempotency: { atomic: true } }, async (request) => {
          await addNote(request)
          await provider.charge(1)
          return 'charged'
        })
      },
    })
    expect((await post(app, '/notes')).json()).toMatchObject({ code: 'PAWL_FOREIGN_IN_TRANSACTION' })
    expect(await notesIn(database)).toEqual([])
  })
})

describe('request.tx', () => {
  test('exists only while an atomic handler runs', async () => {
    const seen: FastifyRequest[] = []
    let kept: FastifyRequest['tx'] | undefined
    const { app } = await noteApp(async (request) => {
      seen.push(request)
      kept = request.tx
      return 'done'
    })
    expect((await post(app, '/notes')).statusCode).toBe(200)
    const notAtomic = expect.objectContaining({ code: 'PAWL_NOT_ATOMIC' }) as Error
    expect(() => seen[0]?.tx).toThrow(notAtomic)
    expect(() => seen[0]?.pawl.stage).toThrow(notAtomic)
    const late = kept?.insertInto('audit').values({ what: 'late' }).execute()
    await expect(late).rejects.toMatchObject({ code: 'PAWL_TRANSACTION_CLOSED' })
  })

  test('does not exist on a marked route that is not atomic, nor on one that is not marked', async () => {
    const { app } = await rideApp({
      routes: (server) => {
        server.post('/marked', { idempotency: true }, (request) => addNote(request))
        server.post('/open', (request) => addNote(request))
      },
    })
    expect((await post(app, '/marked')).json()).toMatchObject({ code: 'PAWL_NOT_ATOMIC' })
    expect((await post(app, '/open')).json()).toMatchObject({ code: 'PAWL_ROUTE_NOT_MARKED' })
  })
})

test('a staged job exists exactly when the rows do', async () => {
  const { app, database } = await noteApp(async (request) => {
    const note = await addNote(request)
    await request.pawl.stage('send_note', { id: note.id })
    if ((request.body as { fail: boolean }).fail) throw new Error('a bug')
    return note
  })
  const jobs = () => database.rows('SELECT name, payload FROM pawl.staged_jobs')
  await post(app, '/notes', { key: 'fails', payload: { fail: true } })
  expect(await jobs()).toEqual([])
  const { id } = (await post(app, '/notes', { payload: { fail: false } })).json<{ id: string }>()
  expect(await jobs()).toEqual([{ name: 'send_note', payload: { id } }])
})

describe('the handler', () => {
  test('is called with the Fastify instance of its route as `this`', async () => {
    const { app } = await rideApp({
      routes: (server) => {
        server.register(async (inner) => {
          inner.decorate('shelf', 'upper')
          inner.post('/notes', { idempotency: { atomic: true } }, async function (this: FastifyInstance) {
            return { same: this === inner, shelf: this.getDecorator('shelf') }
          })
        })
      },
    })
    expect((await post(app, '/notes')).json()).toEqual({ same: true, shelf: 'upper' })
  })

  test('can also be used on a plain route, where it runs every time', async () => {
    let runs = 0
    const handler = async () => ({ runs: ++runs })
    const { app, database } = await rideApp({
      routes: (server) => {
        server.post('/atomic', { idempotency: { atomic: true } }, handler)
        server.post('/plain', handler)
      },
    })
    const bodies: unknown[] = []
    for (const url of ['/atomic', '/plain', '/plain', '/atomic']) bodies.push((await post(app, url)).json())
    expect(bodies).toEqual([{ runs: 1 }, { runs: 2 }, { runs: 3 }, { runs: 1 }])
    expect(await keysIn(database)).toHaveLength(1)
  })
})
