import { text } from 'node:stream/consumers'
import formbody from '@fastify/formbody'
import { respond } from '@pawl/core'
import type { IdempotencyOptions } from '@pawl/fastify'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { describe, expect, test } from 'vitest'
import { listen, send } from '../support/http-client.js'
import { rideApp } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'

const CSV = 'application/x-csv'

class Table {
  readonly #csv: string

  constructor(csv: string) {
    this.#csv = csv
  }

  get csv(): string {
    return this.#csv
  }
}

/** What a parser can turn a body into. */
const parsers = {
  buffer: (app: FastifyInstance) =>
    app.addContentTypeParser(CSV, { parseAs: 'buffer' }, (_, body, done) => done(null, body)),
  string: (app: FastifyInstance) =>
    app.addContentTypeParser(CSV, { parseAs: 'string' }, (_, body, done) => done(null, body)),
  object: (app: FastifyInstance) =>
    app.addContentTypeParser(CSV, { parseAs: 'string' }, (_, body, done) =>
      done(null, { rows: body.toString().split('\n') }),
    ),
  instance: (app: FastifyInstance) =>
    app.addContentTypeParser(CSV, { parseAs: 'string' }, (_, body, done) =>
      done(null, new Table(body.toString())),
    ),
  stream: (app: FastifyInstance) => app.addContentTypeParser(CSV, (_, payload, done) => done(null, payload)),
}

/** An app that answers with the CSV that it was sent, however that was parsed. */
async function csvApp(
  parser: keyof typeof parsers,
  read: (request: FastifyRequest) => string | Promise<string>,
  idempotency: IdempotencyOptions = {},
  before: (app: FastifyInstance) => unknown = () => {},
) {
  let runs = 0
  const upload = pipeline<{ csv: string }>({ name: 'upload', version: 1 }).finish(({ input }) => {
    runs++
    return respond(201, { csv: input.csv })
  })
  const ride = await rideApp({
    pipelines: [upload],
    before: (app) => {
      parsers[parser](app)
      before(app)
    },
    routes: (app) => {
      app.route({
        method: 'POST',
        url: '/upload',
        idempotency,
        handler: async (request) => request.pawl.run(upload, { csv: await read(request) }),
      })
    },
  })
  const url = await listen(ride.app)
  const uploadCsv = (body: string, path = '/upload') =>
    send(url, { path, body, headers: { 'content-type': CSV } })
  return { ...ride, upload: uploadCsv, runs: () => runs }
}

/** Expects that the same content is the same request, and that other content is not. */
async function expectToldApart({ upload, runs }: Awaited<ReturnType<typeof csvApp>>): Promise<void> {
  const first = await upload('a,b\n1,ü')
  expect(first.status).toBe(201)
  expect(JSON.parse(first.body.toString())).toEqual({ csv: 'a,b\n1,ü' })
  const same = await upload('a,b\n1,ü')
  expect(same.headers['idempotency-replayed']).toBe('true')
  expect(same.body).toEqual(first.body)
  expect((await upload('a,b\n1,u')).status).toBe(422)
  expect(runs()).toBe(1)
}

describe('a body from a parser of the application', () => {
  test('is compared by its content: bytes', async () => {
    await expectToldApart(await csvApp('buffer', ({ body }) => (body as Buffer).toString()))
  })

  test('is compared by its content: a string', async () => {
    await expectToldApart(await csvApp('string', ({ body }) => body as string))
  })

  test('is compared by its content: a plain object', async () => {
    await expectToldApart(await csvApp('object', ({ body }) => (body as { rows: string[] }).rows.join('\n')))
  })

  test('is compared by what the route says: bytes', async () => {
    const app = await csvApp('buffer', ({ body }) => (body as Buffer).toString(), {
      fingerprint: ({ body }) => (body as Buffer).toString().split('\n')[1] as string,
    })
    await expectToldApart(app)
  })

  test('is compared by what the route says: an object of a class', async () => {
    const app = await csvApp('instance', ({ body }) => (body as Table).csv, {
      fingerprint: ({ body }) => (body as Table).csv,
    })
    await expectToldApart(app)
  })

  test.each(['instance', 'stream'] as const)(
    'is refused if nobody can tell whether two of them are the same: %s',
    async (parser) => {
      const { upload, runs, database, log } = await csvApp(parser, () => 'whatever')
      const refused = await upload('a,b')
      expect(refused.status).toBe(500)
      expect(JSON.parse(refused.body.toString())).toMatchObject({ code: 'internal_error' })
      expect(refused.body.toString()).not.toContain('fingerprint')
      const message = expect.stringContaining('Give the route idempotency.fingerprint') as string
      const err = expect.objectContaining({ code: 'PAWL_UNREADABLE_BODY', message }) as unknown
      expect(log).toContainEqual(expect.objectContaining({ level: 50, err }))
      expect(await database.rows('SELECT * FROM pawl.idempotency_keys')).toEqual([])
      expect(runs()).toBe(0)
    },
  )

  test('is compared by what the route says: a stream', async () => {
    const { upload, runs } = await csvApp('stream', ({ body }) => text(body as FastifyRequest['raw']), {
      fingerprint: ({ query }) => query as object,
    })
    const first = await upload('a,b', '/upload?sha=1')
    expect(JSON.parse(first.body.toString())).toEqual({ csv: 'a,b' })
    const same = await upload('a,b', '/upload?sha=1')
    expect(same.headers['idempotency-replayed']).toBe('true')
    expect(same.body).toEqual(first.body)
    expect((await upload('a,c', '/upload?sha=2')).status).toBe(422)
    expect(runs()).toBe(1)
  })
})

test('a form is the same form in whatever order its fields come', async () => {
  const { app, provider } = await rideApp({
    before: async (server) => {
      await server.register(formbody)
    },
  })
  const url = await listen(app)
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  const first = await send(url, { body: 'amount=20&note=a+b', headers })
  expect(first.status).toBe(201)
  const same = await send(url, { body: 'note=a%20b&amount=20', headers })
  expect(same.headers['idempotency-replayed']).toBe('true')
  expect(same.body).toEqual(first.body)
  expect((await send(url, { body: 'amount=21&note=a+b', headers })).status).toBe(422)
  expect(await provider.ledger()).toHaveLength(1)
})

describe('a query from a parser of the application', () => {
  test.each<[string, (search: string) => unknown]>([
    ['URLSearchParams', (search) => new URLSearchParams(search)],
    ['a Map', (search) => new Map([['search', search]])],
    ['an object of a class', (search) => new Table(search)],
  ])('is refused if nobody can tell whether two of them are the same: %s', async (_, parse) => {
    const { upload, runs } = await csvApp(
      'string',
      () => 'whatever',
      {},
      (app) =>
        app.addHook('onRequest', async (request) => {
          request.query = parse(request.url.split('?')[1] ?? '')
        }),
    )
    for (const path of ['/upload?amount=1', '/upload?amount=1000'])
      expect((await upload('a,b', path)).status).toBe(500)
    expect(runs()).toBe(0)
  })

  test('that is an empty list is not the same as an empty query', async () => {
    let query: unknown = {}
    const { upload } = await csvApp(
      'string',
      () => 'whatever',
      {},
      (app) =>
        app.addHook('onRequest', async (request) => {
          request.query = query
        }),
    )
    expect((await upload('a,b')).status).toBe(201)
    query = Object.create(null)
    expect((await upload('a,b')).headers['idempotency-replayed']).toBe('true')
    query = []
    expect((await upload('a,b')).status).toBe(422)
  })
})
