import type { PipelineSettings } from '@pawl/core'
import type { FastifyInstance, FastifyReply, FastifyRequest, LightMyRequestResponse } from 'fastify'
import { type RideApp, rideApp, type RideAppOptions } from './ride-app.js'
import type { TestDatabase } from './test-database.js'

/** An ordinary handler, for atomic and plain routes. */
export type NoteHandler = (request: FastifyRequest, reply: FastifyReply) => unknown

/** An app with one atomic route besides the ride: `POST /notes`. */
export function noteApp(
  handler: NoteHandler,
  options: RideAppOptions & { readonly settings?: PipelineSettings } = {},
): Promise<RideApp> {
  const { settings: atomic = true, ...rest } = options
  return rideApp({
    ...rest,
    routes: (app) => void app.post('/notes', { idempotency: { atomic } }, handler),
  })
}

/** Writes a note in the transaction of an atomic handler. */
export async function addNote(request: FastifyRequest, what = 'noted'): Promise<{ readonly id: string }> {
  return request.tx.insertInto('audit').values({ what }).returning('id').executeTakeFirstOrThrow()
}

/** A POST of Ann's, always under the same key unless the test gives another. */
export function post(
  app: FastifyInstance,
  url: string,
  options: { readonly key?: string; readonly payload?: object } = {},
): Promise<LightMyRequestResponse> {
  const { key = 'key-of-ann', payload = {} } = options
  const headers = { authorization: 'Bearer ann', 'idempotency-key': key }
  return app.inject({ method: 'POST', url, headers, payload })
}

/** The text of every note that was committed. */
export async function notesIn(database: TestDatabase): Promise<string[]> {
  const rows = await database.rows<{ what: string }>('SELECT what FROM audit ORDER BY what')
  return rows.map(({ what }) => what)
}

/** The status of every key, with that of its stored response, which is null if none is stored. */
export async function keysIn(
  database: TestDatabase,
): Promise<{ readonly status: string; readonly response_status: number | null }[]> {
  return database.rows('SELECT status, response_status FROM pawl.idempotency_keys ORDER BY created_at')
}
