import { randomUUID } from 'node:crypto'
import { createBackground, type Outcome, type ReaperOptions, respond } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { countedReaper, insertExpired, keysLeft, note } from '../support/expired-keys.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { gate, hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { NOTHING } from './nothing-reaped.js'

const HOUR_MS = 3_600_000
const MANY = 50

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.create()
})
afterEach(() => database.drop())

async function insertUnfinished(status: 'running' | 'stuck', expiresAt: string): Promise<void> {
  await database.rows(
    `INSERT INTO pawl.idempotency_keys
       (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder, status,
        stuck_reason, lease_until, run_after, created_at, updated_at, expires_at)
     VALUES ($1, $2, 'note', 1, '0123456789abcdef', sha256(''), 1, '{}', gen_random_uuid(), $1,
             CASE $1 WHEN 'stuck' THEN 'too_old' END, CASE $1 WHEN 'running' THEN timestamptz '2001-01-01' END,
             '2001-01-01', '2001-01-01', '2001-01-01', $3)`,
    [status, randomUUID(), expiresAt],
  )
}

const statuses = () =>
  database.rows('SELECT status, count(*)::int FROM pawl.idempotency_keys GROUP BY status ORDER BY status')

describe('a key', () => {
  // Shows I9.
  test('is deleted if it is finished and expired, and never while it is running or stuck, whatever its times say', async () => {
    await insertExpired(database, 5)
    const fresh = await insertExpired(database, 2, 'fresh')
    await database.rows(
      `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() + interval '1 hour' WHERE scope = 'fresh'`,
    )
    for (const expiresAt of ['2001-01-02', '-infinity', '2101-01-01', 'infinity']) {
      await insertUnfinished('running', expiresAt)
      await insertUnfinished('stuck', expiresAt)
    }
    const { reaper } = countedReaper(database)
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 5 })
    expect(await reaper.runOnce()).toEqual(NOTHING)
    expect(await statuses()).toEqual([
      { status: 'finished', count: fresh.length },
      { status: 'running', count: 4 },
      { status: 'stuck', count: 4 },
    ])
  })

  test('is left alone while it is being made running again', async () => {
    const [changed, ...others] = await insertExpired(database, 3)
    const person = await database.admin.connect()
    await person.query('BEGIN')
    await person.query(
      `UPDATE ${database.schema}.idempotency_keys SET status = 'running', recovery_point = 'started',
              response_status = NULL, response_body = NULL WHERE id = $1`,
      [changed],
    )
    const { reaper } = countedReaper(database)
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: others.length })
    await person.query('COMMIT')
    person.release()
    expect(await reaper.runOnce()).toEqual(NOTHING)
    expect(await keysLeft(database)).toEqual([changed])
  })

  test('replays until it is deleted, expired or not, and is new after that', async () => {
    const engine = createEngine({ pool: database.pool(), pipelines: [note], schema: database.schema })
    const request = { scope: 'rider', key: randomUUID(), input: null }
    const types: string[] = []
    const execute = async () => types.push((await engine.execute(note, request)).type)
    const { reaper } = countedReaper(database)
    await execute()
    await reaper.runOnce()
    await execute()
    await database.rows(
      `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 second'`,
    )
    await execute()
    await reaper.runOnce()
    await execute()
    expect(types).toEqual(['completed', 'replayed', 'replayed', 'completed'])
    await engine.close()
  })

  test("is kept for its pipeline's own retention", async () => {
    const short = pipeline<null>({ name: 'short', version: 1, retentionMs: 2 * HOUR_MS }).finish(() =>
      respond(204),
    )
    const long = pipeline<null>({ name: 'long', version: 1, retentionMs: 48 * HOUR_MS }).finish(() =>
      respond(204),
    )
    const pipelines = [short, long]
    const engine = createEngine({ pool: database.pool(), pipelines, schema: database.schema })
    for (const each of pipelines) await engine.execute(each, { scope: 'rider', key: each.name, input: null })
    const { reaper } = countedReaper(database)
    const hoursLater = (hours: number) =>
      database.rows(
        `UPDATE pawl.idempotency_keys SET expires_at = expires_at - $1::integer * interval '1 hour'`,
        [hours],
      )
    const names = () => database.rows('SELECT pipeline FROM pawl.idempotency_keys ORDER BY pipeline')

    await hoursLater(1)
    await reaper.runOnce()
    expect(await names()).toEqual([{ pipeline: 'long' }, { pipeline: 'short' }])
    await hoursLater(1)
    await reaper.runOnce()
    expect(await names()).toEqual([{ pipeline: 'long' }])
    await hoursLater(45)
    await reaper.runOnce()
    expect(await names()).toEqual([{ pipeline: 'long' }])
    await hoursLater(1)
    await reaper.runOnce()
    expect(await names()).toEqual([])
    await engine.close()
  })
})

const auditOf = (retentionMs: number) =>
  pipeline<null>({ name: 'audited', version: 1, retentionMs })
    .local('written', async ({ tx, keyId }) => {
      await tx.insertInto('audit').values({ what: keyId }).execute()
    })
    .finish(({ keyId }) => respond(200, { keyId }))

const typesOf = (outcomes: readonly Outcome[]) => new Set(outcomes.map(({ type }) => type))

async function executeWhileReaping(retentionMs: number) {
  await createRideTables(database)
  await insertExpired(database, 300)
  const audited = auditOf(retentionMs)
  const engine = createEngine({ pool: database.pool(), pipelines: [audited], schema: database.schema })
  const { reaper } = countedReaper(database, { batchSize: 7 })
  const done = new AbortController()
  const reaping = (async () => {
    let deleted = 0
    while (!done.signal.aborted) deleted += (await reaper.runOnce()).deleted
    return deleted
  })()
  const execute = () =>
    Promise.all(
      Array.from({ length: MANY }, (_, n) =>
        engine.execute(audited, { scope: 'rider', key: `k${n}`, input: null }),
      ),
    )
  const outcomes = await execute()
  const replays = retentionMs < HOUR_MS ? [] : await execute()
  done.abort()
  const deleted = await reaping
  await engine.close()
  return { outcomes, replays, deleted: deleted + (await reaper.runOnce()).deleted }
}

describe('while requests run', () => {
  test('their keys are not touched', async () => {
    const { outcomes, replays, deleted } = await executeWhileReaping(24 * HOUR_MS)
    expect(typesOf(outcomes)).toEqual(new Set(['completed']))
    expect(typesOf(replays)).toEqual(new Set(['replayed']))
    expect(deleted).toBe(300)
    expect(await statuses()).toEqual([{ status: 'finished', count: MANY }])
  })

  test('keys that expire as they finish are whole until they are gone', async () => {
    const { outcomes, deleted } = await executeWhileReaping(1)
    expect(typesOf(outcomes)).toEqual(new Set(['completed']))
    expect(await database.rows('SELECT DISTINCT what FROM audit')).toHaveLength(MANY)
    expect(await database.rows('SELECT what FROM audit')).toHaveLength(MANY)
    await database.rows('SELECT pg_sleep(0.002)')
    expect(deleted + (await countedReaper(database).reaper.runOnce()).deleted).toBe(300 + MANY)
    expect(await keysLeft(database)).toEqual([])
  })
})

describe('a round that fails', () => {
  test('is reported, and another follows', async () => {
    await insertExpired(database, 3)
    const failed = hear('pawl:round_failed')
    const done = gate()
    const rounds = hear('pawl:round')
    let failures = 1
    const { reaper } = countedReaper(database, { pollMs: 1 }, {}, (step) => {
      if (step === 'reap_keys' && failures-- > 0) throw new Error('lost')
      if (step === 'reap_effects') done.open()
    })
    reaper.start()
    await done.opened
    await reaper.stop()
    expect(failed).toMatchObject([{ service: 'reaper', failures: 1, error: { message: 'lost' } }])
    expect(rounds).not.toEqual([])
    expect(await keysLeft(database)).toEqual([])
  })

  test('runOnce throws what a started reaper would report', async () => {
    await database.rows('DROP TABLE pawl.idempotency_keys CASCADE')
    const { reaper } = countedReaper(database)
    await expect(reaper.runOnce()).rejects.toMatchObject({ code: '42P01' })
  })
})

const engineOf = () =>
  createProbedEngine<Database>(
    {
      pool: database.pool(),
      pipelines: [
        note,
        pipeline<null>({ name: 'long', version: 1, retentionMs: 30 * 24 * HOUR_MS }).finish(() =>
          respond(204),
        ),
      ],
      schema: database.schema,
    },
    () => {},
  )

describe('options', () => {
  test('effects may not be kept for less long than the keys of any pipeline', () => {
    expect(() =>
      createBackground({ engine: engineOf(), reaper: { effectRetentionMs: 24 * HOUR_MS } }),
    ).toThrow(
      'createBackground: reaper: effectRetentionMs is 86400000; it takes 2592000000 or more, which is how long the keys are kept.',
    )
    createBackground({ engine: engineOf(), reaper: { effectRetentionMs: 30 * 24 * HOUR_MS } })
  })

  test.each([
    [{ batchSize: 0 }, 'batchSize is 0'],
    [{ pauseMs: -1 }, 'pauseMs is -1'],
    [{ pollMs: 2 ** 31 }, 'pollMs is 2147483648'],
    [{ effectRetentionMs: 1e15 }, 'effectRetentionMs is 1000000000000000'],
    [{ bachSize: 1 }, "unknown option 'bachSize'"],
  ])('%j is refused', (reaper, message) => {
    expect(() => createBackground({ engine: engineOf(), reaper: reaper as ReaperOptions })).toThrow(message)
  })
})
