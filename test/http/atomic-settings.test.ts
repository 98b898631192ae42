import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { noteApp, post } from '../support/notes.js'
import { rideApp } from '../support/ride-app.js'

describe('settings', () => {
  test('are those of a pipeline', async () => {
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
      /atomic\.post\.notes'?: isolation is 'strong'; it takes one of 'read committed'/,
    ],
    [{ retentionMs: -1 }, /retentionMs is -1; it takes a whole number of 1 or more/],
    [{ retention: 1 }, /unknown option 'retention'/],
  ])('%o are refused when the route is declared', async (settings, message) => {
    const refused = noteApp(async () => 'x', { settings: settings as object })
    await expect(refused).rejects.toThrow(message)
  })

  test.each([[false], [{ exempt: 'not needed' }]])(
    'a route that is exempt by %o cannot be atomic',
    async (idempotency) => {
      const refused = rideApp({
        routes: (server) =>
          void server.post(
            '/notes',
            { idempotency },
            server.atomic(async () => 'x'),
          ),
      })
      await expect(refused).rejects.toThrow(/POST \/notes: idempotency is .* its handler is atomic/)
    },
  )

  test('something that is no handler is refused', async () => {
    const refused = rideApp({ routes: (server) => void server.atomic('handler' as never) })
    await expect(refused).rejects.toThrow(/app\.atomic: the first argument is 'handler'; it takes a handler/)
  })
})
