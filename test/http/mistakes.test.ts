import { respond } from '@pawl/core'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { describe, expect, test } from 'vitest'
import { addNote, noteApp, post } from '../support/notes.js'
import { type RideApp, rideApp } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'

const answering = pipeline<object>({ name: 'answering', version: 1 }).finish(() => respond(201))

/** An app with `POST /it`, and the messages of all the errors that it logs. */
async function it(declare: (app: FastifyInstance) => void, plugin: object = {}): Promise<RideApp> {
  return rideApp({ plugin, pipelines: [answering], routes: declare })
}

function errorsIn({ log }: RideApp): string[] {
  return log.flatMap(({ err }) => (err as { readonly message: string } | undefined)?.message ?? [])
}

const warnedOf = (parts: RideApp) =>
  parts.log.filter(({ msg }) => String(msg).includes('POST /notes did not use request.tx'))

const run = (request: FastifyRequest) => request.pawl.run(answering, request.body as object)

describe('the error for the developer names', () => {
  test.each([
    [42, /returned a value of type number; it has to be a string \(POST \/it\)\.$/],
    [
      'undefined',
      /returned 'undefined', which is what String\(\) makes of a missing value\. .* \(POST \/it\)\.$/,
    ],
    ['x'.repeat(256), /returned 256 characters; the maximum is 255 \(POST \/it\)\.$/],
    [null, /^The scope function returned nothing, so nobody owns the key\. .*\(POST \/it\)\.$/],
  ])('a scope that cannot be used: %#', async (scope, message) => {
    const parts = await it((app) => void app.post('/it', { idempotency: true }, run), { scope: () => scope })
    const { statusCode, body } = await post(parts.app, '/it')
    expect(statusCode).toBe(500)
    expect(body).not.toContain('scope')
    expect(errorsIn(parts)).toEqual([expect.stringMatching(message)])
  })

  test.each([
    ['is asynchronous', async () => 1, /^idempotency\.fingerprint of POST \/it failed: .*is a Promise/],
    [
      'throws',
      () => {
        throw new Error('no such field.')
      },
      'idempotency.fingerprint of POST /it failed: no such field. It has to return JSON or bytes, synchronously.',
    ],
  ])('a fingerprint that %s', async (_, fingerprint, message) => {
    const parts = await it((app) => void app.post('/it', { idempotency: { fingerprint } }, run))
    expect((await post(parts.app, '/it')).json()).toMatchObject({ code: 'internal_error' })
    expect(errorsIn(parts)).toEqual([expect.stringMatching(message)])
  })

  test('a pipeline on an atomic route', async () => {
    const { app } = await it((server) => void server.post('/it', { idempotency: { atomic: true } }, run))
    expect((await post(app, '/it')).json<{ message: string }>().message).toContain(
      'POST /it is atomic: its handler',
    )
  })

  test('a transaction that is used after its handler has returned', async () => {
    const leftovers: Promise<string>[] = []
    const { app } = await noteApp(async (request, reply) => {
      await addNote(request)
      leftovers.push(
        new Promise((resolve) => {
          reply.raw.once('finish', () => {
            addNote(request).catch((error: Error) => resolve(error.message))
          })
        }),
      )
      return 'noted'
    })
    await post(app, '/notes')
    expect(await leftovers[0]).toContain(
      'POST /notes used request.tx, request.pawl.write or request.pawl.stage after its handler',
    )
  })

  test('an atomic handler that wrote elsewhere, in development', async () => {
    const unused = await noteApp(async () => 'written elsewhere')
    await post(unused.app, '/notes')
    const used = await noteApp((request) => addNote(request))
    await post(used.app, '/notes')
    const quiet = await noteApp(async () => 'written elsewhere', { plugin: { strict: false } })
    await post(quiet.app, '/notes')
    expect([unused, used, quiet].map((parts) => warnedOf(parts).length)).toEqual([1, 0, 0])
  })
})

test('run works when it is called without request.pawl as its receiver', async () => {
  const { app } = await it(
    (server) =>
      void server.post('/it', { idempotency: true }, ({ pawl: { run: taken }, body }) =>
        taken(answering, body as object),
      ),
  )
  expect((await post(app, '/it')).statusCode).toBe(201)
})

test("a request without content is the client's mistake if the pipeline needs some", async () => {
  const { app, database } = await it((server) => void server.post('/it', { idempotency: true }, run))
  const headers = { authorization: 'Bearer ann', 'idempotency-key': 'empty' }
  const response = await app.inject({ method: 'POST', url: '/it', headers })
  expect(response.json()).toMatchObject({
    status: 400,
    code: 'invalid_input',
    detail: 'This request has no content.',
  })
  expect(await database.rows('SELECT * FROM pawl.idempotency_keys')).toEqual([])
})
