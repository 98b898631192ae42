import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { noteApp, post } from '../support/notes.js'
import { rideApp } from '../support/ride-app.js'

describe('settings', () => {
  test('are the same as those of a pipeline', async () => {
    const { app, database } = await noteApp(
      async ({ tx }) => (await sql<object>`SHOW transaction_isolation`.execute(tx)).rows,
      { settings: { isolation: 'serializable', retentionMs: 7_200_000 } },
    )
    expect((await post(app, '/notes')).json()).toEqual([{ transaction_isolation: 'serializable' }])
    const left = `SELECT extract(epoch FROM expires_at - updated_at)::int AS seconds FROM pawl.idempotency_keys`
    expect(await database.rows(left)).toEqual([{ seconds: 7_200 }])
  })

  test('may limit the route for each scope', async () => {
    const { app } = await noteApp(async () => ({ done: true }), {
      settings: { limits: { newKeys: { max: 1, perMs: 60_000 } } },
    })
    const send = (key: string, payload = {}) => post(app, '/notes', { key, payload })
    expect((await send('first')).statusCode).toBe(200)
    const refused = await send('second')
    expect(refused.statusCode).toBe(429)
    expect(refused.headers['ratelimit-policy']).toBe('"pipeline_new_keys";q=1;w=60')
    // A replay is no new key.
    expect((await send('first')).headers['idempotency-replayed']).toBe('true')
  })

  test('what a scope has stored is limited for its handlers as well', async () => {
    const { app } = await noteApp(async () => ({ done: true }), {
      engine: { limits: { storedBytes: 1_500 } },
    })
    expect((await post(app, '/notes', { key: 'first' })).statusCode).toBe(200)
    const refused = await post(app, '/notes', { key: 'second' })
    expect(refused.statusCode).toBe(429)
    expect(refused.headers).toMatchObject({
      'retry-after': '60',
      'ratelimit-policy': '"stored_bytes";q=1500;qu="content-bytes"',
    })
  })

  test.each([
    [
      { isolation: 'strong' },
      /idempotency of POST \/notes: atomic: isolation is 'strong'; it takes one of 'read committed'/,
    ],
    [{ retentionMs: -1 }, /retentionMs is -1; it takes a whole number of 1 or more/],
    [{ retention: 1 }, /unknown option 'retention'. The options are isolation, /],
  ])('%o are refused when the route is declared', async (settings, message) => {
    const refused = noteApp(async () => 'x', { settings: settings as object })
    await expect(refused).rejects.toThrow(message)
  })

  test('that do not fit together are refused when the route is declared', async () => {
    const refused = noteApp(async () => 'x', { settings: { statementTimeoutMs: 5_000, leaseMs: 5_000 } })
    await expect(refused).rejects.toThrow(/statementTimeoutMs is 5000; it takes less than leaseMs/)
  })

  test('of false leave a route whose handler has to run a pipeline', async () => {
    const { app } = await rideApp({
      routes: (server) => void server.post('/plain', { idempotency: { atomic: false } }, async () => 'x'),
    })
    expect((await post(app, '/plain')).json()).toMatchObject({ code: 'PAWL_PIPELINE_NOT_RUN' })
  })
})
