import { randomUUID } from 'node:crypto'
import { createBackground, migrate } from '@pawl/core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { pawl } from '../cli/pawl.js'
import { createEngine } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { reference, sqlIn } from './operations-pages.js'
import { day, SCOPE, Story } from './operations-story.js'

/** A filled database, and the roles of the page with their rights. Roles belong to the whole server, so each run has its own. */
async function withRights() {
  const database = await TestDatabase.create()
  const story = new Story(database)
  await story.fill()
  const suffix = randomUUID().replaceAll('-', '').slice(0, 12)
  const roles = ['rides_app', 'rides_operator', 'rides_viewer', 'rides_support'] as const
  const named = (role: (typeof roles)[number]) => `${role}_${suffix}`
  for (const role of roles) await database.rows(`CREATE ROLE ${named(role)}`)
  await database.rows(
    sqlIn(reference, 'Roles and rights')
      .replaceAll(/\b(rides_[a-z]+)\b/g, `$1_${suffix}`)
      .replaceAll('SCHEMA pawl ', `SCHEMA ${database.schema} `),
  )
  onTestFinished(async () => {
    for (const role of roles) await database.rows(`DROP OWNED BY ${named(role)}; DROP ROLE ${named(role)}`)
    await database.drop()
  })
  const env = (role: (typeof roles)[number]) => {
    const url = new URL(database.url)
    url.searchParams.set('options', `-c role=${named(role)}`)
    return { DATABASE_URL: url.href, PAWL_ACTOR: 'anna@ops-1' }
  }
  const as = (role: (typeof roles)[number], ...argv: string[]) =>
    pawl([...argv.slice(0, 1), '--schema', database.schema, ...argv.slice(1)], { env: env(role) })
  return { database, story, named, as }
}

describe('the rights on the page are enough', () => {
  test('for the application: requests, background services, and migrate at every start', async () => {
    const { database, story, named } = await withRights()
    const pool = database.pool({ options: `-c role=${named('rides_app')}` })
    const { createRide, faxPermit } = story
    const engine = createEngine({ pool, schema: database.schema, pipelines: [createRide, faxPermit] })
    expect(await migrate(pool, { schema: database.schema })).toEqual({ applied: 0 })
    const request = { scope: SCOPE, key: 'as the application', input: { trip: 1 } }
    expect(await engine.execute(createRide, request)).toMatchObject({ type: 'completed' })
    await database.rows(
      `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() WHERE key = 'ride-1001'`,
    )
    await database.rows(
      `UPDATE pawl.effects SET created_at = created_at - interval '500 days' WHERE key = 'ride-1001'`,
    )
    const sink = {
      deliver: async (jobs: readonly unknown[]) => jobs.map(() => ({ type: 'delivered' }) as const),
    }
    const background = createBackground({ engine, relay: { sink } })
    const first = await background.runOnce()
    expect(first).toMatchObject({ completer: { completed: 1 }, reaper: { deleted: 1, effectsDeleted: 1 } })
    // The job of the request that the completer finishes may be there in time for the first round of the relay.
    const second = await background.runOnce()
    expect(
      [first, second].flatMap(({ relays }) => relays).reduce((sum, { delivered }) => sum + delivered, 0),
    ).toBe(2)
    await engine.close()
  })

  test('for the operator: everything that pawl does, except migrate', async () => {
    const { as, database } = await withRights()
    await database.rows(
      `UPDATE pawl.idempotency_keys SET lease_until = clock_timestamp() + interval '1 hour' WHERE key = 'ride-1006'`,
    )
    const because = ['--reason', 'tried']
    const unstuck = await as('rides_operator', 'unstick', SCOPE, 'ride-1002', ...because)
    const revoked = await as('rides_operator', 'revoke', SCOPE, 'ride-1006', ...because)
    const answered = await as('rides_operator', 'answer', SCOPE, 'ride-1004', ...because, '--status', '410')
    const requeued = await as('rides_operator', 'requeue', '--all', ...because)
    const reaped = await as('rides_operator', 'reap')
    expect([unstuck, revoked, answered, requeued, reaped].map(({ exit, err }) => `${exit} ${err}`)).toEqual(
      Array(5).fill('0 '),
    )
  })

  test('for the viewer: every command that only reads, and no other', async () => {
    const { as } = await withRights()
    const ends = await Promise.all([
      as('rides_viewer', 'status'),
      as('rides_viewer', 'doctor'),
      as('rides_viewer', 'list'),
      as('rides_viewer', 'show', SCOPE, 'ride-1002'),
      as('rides_viewer', 'dead'),
      as('rides_viewer', 'drain', 'create-ride@1'),
      as('rides_viewer', 'reconcile', 'no-records.mjs', '--from', day(-1), '--to', day(2)),
    ])
    expect(ends.map(({ exit, err }) => `${exit} ${err}`)).toEqual(['3 ', '3 ', '0 ', '0 ', '0 ', '0 ', '3 '])
    const refused = await as('rides_viewer', 'unstick', SCOPE, 'ride-1002', '--reason', 'tried')
    expect(refused).toMatchObject({
      exit: 1,
      err: expect.stringContaining('lacks rights that Pawl needs: UPDATE, DELETE on'),
    })
  })

  test('for support: the view without inputs and bodies, and nothing else', async () => {
    const { database, named } = await withRights()
    const pool = database.pool({ options: `-c role=${named('rides_support')}` })
    expect((await pool.query(`SELECT * FROM ${database.schema}.keys`)).rows).toHaveLength(7)
    await expect(pool.query(`SELECT input FROM ${database.schema}.idempotency_keys`)).rejects.toThrow(
      'permission denied',
    )
  })
})
