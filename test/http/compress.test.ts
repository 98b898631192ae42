import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import compress from '@fastify/compress'
import { respond } from '@pawl/core'
import type { FastifyInstance } from 'fastify'
import { describe, expect, test } from 'vitest'
import { lasting, listen, send } from '../support/http-client.js'
import { rideApp } from '../support/ride-app.js'
import { pipeline } from '../support/rides.js'

/** Long enough to be compressed. */
const content = { text: 'over and over again, '.repeat(500) }
const plain = Buffer.from(JSON.stringify(content))

const answers = pipeline<null>({ name: 'answers', version: 1 }).finish(() => respond(200, content))

function declare(app: FastifyInstance): void {
  app.post('/answer', { idempotency: true }, (request) => request.pawl.run(answers, null))
  app.post('/atomic', { idempotency: { atomic: true } }, async () => content)
}

const withCompress = {
  'before the plugin': {
    before: async (app: FastifyInstance) => {
      await app.register(compress, { global: true })
    },
    routes: declare,
  },
  'after the plugin': {
    routes: async (app: FastifyInstance) => {
      await app.register(compress, { global: true })
      declare(app)
    },
  },
}

describe.each(Object.entries(withCompress))('@fastify/compress, registered %s', (_, options) => {
  test.each(['/answer', '/atomic'])('%s is stored as it was before compression', async (path) => {
    const { app, database } = await rideApp({ ...options, pipelines: [answers] })
    const url = await listen(app)
    const ask = (encoding?: string) =>
      send(url, { path, headers: encoding === undefined ? {} : { 'accept-encoding': encoding } })

    const first = await ask('gzip')
    expect(first.status).toBe(200)
    expect(first.headers['content-encoding']).toBe('gzip')
    expect(gunzipSync(first.body)).toEqual(plain)
    const rows = await database.rows<{ response_headers: object; response_body: Buffer }>(
      'SELECT response_headers, response_body FROM pawl.idempotency_keys',
    )
    expect(rows).toEqual([
      { response_headers: { 'content-type': 'application/json; charset=utf-8' }, response_body: plain },
    ])

    const again = await ask('gzip')
    expect(again.headers['idempotency-replayed']).toBe('true')
    expect(lasting(again)).toEqual(lasting(first))
    const uncompressed = await ask()
    expect(uncompressed.headers['content-encoding']).toBeUndefined()
    expect(uncompressed.body).toEqual(plain)
    const other = await ask('br')
    expect(other.headers['content-encoding']).toBe('br')
    expect(brotliDecompressSync(other.body)).toEqual(plain)
  })
})
