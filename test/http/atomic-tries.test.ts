import { sql } from 'kysely'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { describe, expect, test } from 'vitest'
import { addNote, noteApp, notesIn, keysIn, post } from '../support/notes.js'
import { gate } from '../support/signals.js'

/** Fails the transaction with a conflict, as if another one had written the same rows. */
const conflict = (request: FastifyRequest) =>
  sql`DO $$ BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = '40001'; END $$`.execute(request.tx)

/** A handler whose first run meets a conflict, while a branch of it waits until the second run is under way. */
function leavingBranch(branch: (request: FastifyRequest, reply: FastifyReply) => unknown) {
  const secondRuns = gate()
  const branchEnded = gate()
  const told: string[] = []
  let runs = 0
  const handler = async (request: FastifyRequest, reply: FastifyReply) => {
    if (++runs === 1) {
      void secondRuns.opened
        .then(() => branch(request, reply))
        .catch((error: { readonly code?: string }) => void told.push(String(error.code)))
        .finally(() => branchEnded.open())
      await conflict(request)
    }
    secondRuns.open()
    await branchEnded.opened
    await addNote(request, `run ${runs}`)
    return { runs }
  }
  return { handler, told }
}

describe('a branch of a run that was undone', () => {
  test('writes nothing into the transaction of the run that goes on', async () => {
    const { handler, told } = leavingBranch((request) => addNote(request, 'left behind'))
    const { app, database } = await noteApp(handler)
    expect((await post(app, '/notes')).json()).toEqual({ runs: 2 })
    expect(await notesIn(database)).toEqual(['run 2'])
    expect(told).toEqual(['PAWL_NOT_ATOMIC'])
  })

  test('stages no job in that transaction', async () => {
    const { handler, told } = leavingBranch((request) => request.pawl.stage('left_behind', {}))
    const { app, database } = await noteApp(handler)
    await post(app, '/notes')
    expect(await database.rows('SELECT name FROM pawl.staged_jobs')).toEqual([])
    expect(told).toEqual(['PAWL_NOT_ATOMIC'])
  })

  test('does not change the answer of that run', async () => {
    const { handler } = leavingBranch((_, reply) => {
      reply.code(402).header('location', '/declined').type('text/plain')
      reply.statusCode = 403
      reply.removeHeader('x-run')
      void reply.send('declined')
    })
    const { app } = await noteApp(async (request, reply) => {
      reply.header('x-run', 'kept')
      return handler(request, reply)
    })
    const response = await post(app, '/notes')
    expect([response.statusCode, response.json()]).toEqual([200, { runs: 2 }])
    expect(response.headers).toMatchObject({
      'x-run': 'kept',
      'content-type': 'application/json; charset=utf-8',
    })
    expect(response.headers['location']).toBeUndefined()
  })
})

test('a run that has timed out does nothing when it wakes up', async () => {
  const wake = gate()
  const ended = gate()
  let runs = 0
  const { app, database } = await noteApp(
    async (request) => {
      if (++runs > 1) return addNote(request, 'second').then(() => ({ runs }))
      // The handler kills its own backend and swallows the error: the engine tries again beside it.
      await sql`SELECT pg_terminate_backend(pg_backend_pid())`.execute(request.tx).catch(() => {})
      await wake.opened
      await addNote(request, 'zombie').finally(() => ended.open())
      return { runs: 'zombie' }
    },
    { settings: { idleTimeoutMs: 300, leaseMs: 5_000, statementTimeoutMs: 300, lockTimeoutMs: 300 } },
  )
  const answered = post(app, '/notes')
  wake.open()
  await ended.opened
  const response = await answered
  const again = await post(app, '/notes')
  expect(await notesIn(database)).toEqual(['second'])
  expect([response, again].at(-1)?.statusCode).toBe(200)
})

test('every run starts with the body, query and params as the client sent them', async () => {
  let runs = 0
  const { app, database } = await noteApp(async (request) => {
    const body = request.body as { amount: number; list: number[] }
    body.amount *= 100
    body.list.push(2)
    if (++runs === 1) await conflict(request)
    await addNote(request, JSON.stringify(request.body))
    return 'noted'
  })
  await post(app, '/notes', { payload: { amount: 5, list: [1] } })
  expect(await notesIn(database)).toEqual(['{"amount":500,"list":[1,2]}'])
})

test('an error that a handler returns counts as thrown, as on a plain route', async () => {
  const { app, database } = await noteApp(async (request) => {
    await addNote(request)
    return Object.assign(new Error('insufficient funds'), { statusCode: 402 })
  })
  const response = await post(app, '/notes')
  expect([response.statusCode, response.json<{ message: string }>().message]).toEqual([
    402,
    'insufficient funds',
  ])
  expect(await notesIn(database)).toEqual([])
  expect(await keysIn(database)).toEqual([])
})

test('a failure at COMMIT takes back the status and headers that the handler set', async () => {
  const { app, database } = await noteApp(async (request, reply) => {
    await addNote(request, 'same')
    await addNote(request, 'same')
    reply.code(201).header('location', '/notes/1').header('set-cookie', 'session=1')
    return 'noted'
  })
  await database.rows('ALTER TABLE audit ADD UNIQUE (what) DEFERRABLE INITIALLY DEFERRED')
  const response = await post(app, '/notes')
  expect(response.statusCode).toBe(500)
  expect(response.headers).not.toHaveProperty('location')
  expect(response.headers).not.toHaveProperty('set-cookie')
  expect(await notesIn(database)).toEqual([])
})

test('a handler that commits by itself leaves a stuck key for a person to decide about, and no second row', async () => {
  const { app, database } = await noteApp(async (request) => {
    await addNote(request)
    await sql.raw('/* hidden */ COMMIT').execute(request.tx)
    return 'noted'
  })
  expect((await post(app, '/notes')).statusCode).toBe(500)
  expect((await post(app, '/notes')).json()).toMatchObject({ code: 'request_stuck' })
  expect(await notesIn(database)).toEqual(['noted'])
})

/** The first request waits this long; the second has to be done within it, even on a slow machine. */
const HANDLER_TIMEOUT_MS = 2_000

describe('an answer from outside while an atomic handler runs', () => {
  test('is sent, and ends nothing but that request', async () => {
    const timedOut = gate()
    const { app, database } = await noteApp(
      async (request) => {
        await addNote(request)
        await timedOut.opened
        return 'noted'
      },
      { server: { handlerTimeout: HANDLER_TIMEOUT_MS } },
    )
    const response = await post(app, '/notes')
    expect(response.json()).toMatchObject({ statusCode: 503, code: 'FST_ERR_HANDLER_TIMEOUT' })
    timedOut.open()
    await database.rows('SELECT 1')
    const again = await post(app, '/notes', { key: 'another' })
    expect(again.statusCode).toBe(200)
  })

  test('that a timer of the handler sends is refused without ending the process', async () => {
    const { app, database } = await noteApp(async (request, reply) => {
      await addNote(request)
      const sent = gate()
      setTimeout(() => {
        void reply.send('too early')
        sent.open()
      }, 1)
      await sent.opened
      return 'noted'
    })
    expect((await post(app, '/notes')).json()).toMatchObject({ code: 'PAWL_REPLY_IN_ATOMIC' })
    expect(await notesIn(database)).toEqual([])
  })
})

describe('headers of an atomic handler', () => {
  test('are all sent with an answer that is not stored', async () => {
    const { app } = await noteApp(async (_, reply) => {
      reply.code(429).header('retry-after', '120').header('x-limit', '5')
      return { slow: 'down' }
    })
    const { statusCode, headers } = await post(app, '/notes')
    expect([statusCode, headers['retry-after'], headers['x-limit']]).toEqual([429, '120', '5'])
  })

  test('that hold only for the moment are sent once, and are not stored', async () => {
    const { app, database } = await noteApp(async (request, reply) => {
      await addNote(request)
      reply.header('retry-after', '1').header('location', '/notes/1')
      return 'noted'
    })
    expect((await post(app, '/notes')).headers['retry-after']).toBe('1')
    const stored = await database.rows('SELECT response_headers AS headers FROM pawl.idempotency_keys')
    expect(stored).toEqual([
      { headers: { location: '/notes/1', 'content-type': 'text/plain; charset=utf-8' } },
    ])
    expect((await post(app, '/notes')).headers).not.toHaveProperty('retry-after')
  })

  test('that name an encoding are replayed with the bytes', async () => {
    const { app } = await noteApp(async (request, reply) => {
      await addNote(request)
      reply.header('content-encoding', 'identity')
      return Buffer.from('encoded')
    })
    for (const _ of ['first', 'replay'])
      expect((await post(app, '/notes')).headers['content-encoding']).toBe('identity')
  })

  test('that hooks set are not stored: the hooks set them again for a replay', async () => {
    const { app } = await noteApp((request) => addNote(request), {
      before: (server) =>
        void server.addHook(
          'onRequest',
          async (request, reply) => void reply.header('link', `<${request.id}>`),
        ),
    })
    const links = [await post(app, '/notes'), await post(app, '/notes')].map(({ headers }) => headers['link'])
    expect(links).toEqual(['<req-1>', '<req-2>'])
  })
})
