import { randomUUID } from 'node:crypto'
import type { Engine, EngineOptions } from '@pawl/core'
import fastifyPawl from '@pawl/fastify'
import Fastify, { type FastifyInstance } from 'fastify'
import pg from 'pg'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { engineThatDiesAt } from '../support/crash.js'
import { addNote, keysIn, notesIn, post } from '../support/notes.js'
import { Provider } from '../support/provider.js'
import { authenticate } from '../support/ride-app.js'
import { createEngine, createRideOf, createRideTables, type Database } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

/** The app of one process, with `POST /notes` as an atomic route. */
async function appOn(engine: Engine<Database>): Promise<FastifyInstance> {
  const app = Fastify()
  authenticate(app)
  await app.register(fastifyPawl, { engine, scope: (request) => request.user, closeTimeoutMs: 0 })
  app.post('/notes', { idempotency: { atomic: true } }, async (request, reply) => {
    const note = await addNote(request)
    await request.pawl.stage('send_note', { id: note.id })
    reply.code(201).header('location', `/notes/${note.id}`)
    return note
  })
  await app.ready()
  return app
}

/** Sends the request to a process that dies at a position, and waits until the server has noticed. */
async function crashAt(database: TestDatabase, at: string, pipelining = true): Promise<void> {
  const application_name = `doomed_${randomUUID()}`
  // This is not one of the database's pools: its clients are never given back, so it could not be ended.
  const pool = new pg.Pool({
    connectionString: database.url,
    options: `-c search_path=${database.businessSchema}`,
    application_name,
  })
  const { engine, died } = engineThatDiesAt({ ...optionsOn(database, pool), pipelining }, at)
  const answered = post(await appOn(engine), '/notes').then(() => 'answered')
  expect(await Promise.race([died.then(() => 'died'), answered])).toBe('died')
  await database.backendsGone(application_name)
}

const optionsOn = (database: TestDatabase, pool: pg.Pool): EngineOptions<Database> => ({
  pool,
  schema: database.schema,
  pipelines: [createRideOf(new Provider(inject('providerUrl')))],
})

async function openDatabase(): Promise<TestDatabase> {
  const database = await TestDatabase.create()
  onTestFinished(() => database.drop())
  await createRideTables(database)
  return database
}

async function survivor(database: TestDatabase) {
  const engine = createEngine(optionsOn(database, database.pool()))
  const app = await appOn(engine)
  onTestFinished(() => app.close())
  return { app, engine }
}

const nothing: string[] = []
const positions: [string, { readonly notes: string[]; readonly keys: string[] }][] = [
  ['reserve/insert_key#1:before', { notes: nothing, keys: nothing }],
  ['reserve/insert_key#1:after', { notes: nothing, keys: ['running'] }],
  ['finished/begin#1:after', { notes: nothing, keys: ['running'] }],
  ['finished/query#1:after', { notes: nothing, keys: ['running'] }],
  ['finished/insert_staged_job#1:after', { notes: nothing, keys: ['running'] }],
  ['finished/finish_key#1:after', { notes: nothing, keys: ['running'] }],
  ['finished/commit#1:before', { notes: nothing, keys: ['running'] }],
  ['finished/commit#1:after', { notes: ['noted'], keys: ['finished'] }],
]

/** A process cannot die between statements that are sent together. */
const isSentAlong = (at: string) => /(begin|insert_staged_job|finish_key)#1:after$/.test(at)
const ways = positions.flatMap(([at, left]) => [
  ...(isSentAlong(at) ? [] : [{ at, how: 'with pipelining', pipelining: true, left }]),
  { at, how: 'one statement at a time', pipelining: false, left },
])

describe('a process that dies leaves both rows and response, or neither, and a retry ends with one row', () => {
  test.each(ways)('$at, $how', async ({ at, pipelining, left }) => {
    const database = await openDatabase()
    await crashAt(database, at, pipelining)
    expect(await notesIn(database)).toEqual(left.notes)
    expect((await keysIn(database)).map(({ status }) => status)).toEqual(left.keys)
    await database.expireLeases()
    const { app } = await survivor(database)
    const response = await post(app, '/notes')
    const [note] = await database.rows<{ id: string }>('SELECT id FROM audit')
    expect([response.statusCode, response.json()]).toEqual([201, { id: note?.id }])
    expect(response.headers['location']).toBe(`/notes/${note?.id}`)
    expect(response.headers['idempotency-replayed']).toBe(left.notes.length === 0 ? undefined : 'true')
    expect((await post(app, '/notes')).rawPayload).toEqual(response.rawPayload)
    expect(await notesIn(database)).toEqual(['noted'])
    expect(await database.rows('SELECT payload FROM pawl.staged_jobs')).toEqual([{ payload: note }])
  })
})

test('resume refuses a key whose process crashed, because it has no request to run it with', async () => {
  const database = await openDatabase()
  await crashAt(database, 'finished/commit#1:before')
  await database.expireLeases()
  const { app, engine } = await survivor(database)
  const [key] = await database.rows<{ id: string }>('SELECT id FROM pawl.idempotency_keys')
  expect(await engine.resume(key?.id ?? '')).toMatchObject({ type: 'refused', pipeline: 'atomic.post.notes' })
  expect(await notesIn(database)).toEqual([])
  expect(await keysIn(database)).toEqual([{ status: 'running', response_status: null }])
  expect((await post(app, '/notes')).statusCode).toBe(201)
})

test('neither many crashes nor age make a key stuck, because nothing of it is half done', async () => {
  const database = await openDatabase()
  await crashAt(database, 'finished/commit#1:before')
  await database.rows(
    `UPDATE pawl.idempotency_keys SET attempts = 99, created_at = clock_timestamp() - interval '99 days'`,
  )
  await database.expireLeases()
  const { app } = await survivor(database)
  expect((await post(app, '/notes')).statusCode).toBe(201)
  expect(await notesIn(database)).toEqual(['noted'])
})
