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
