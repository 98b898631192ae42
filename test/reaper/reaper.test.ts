import { randomUUID } from 'node:crypto'
import { createBackground, type Outcome, type ReaperOptions, respond } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { countedReaper, countOf, insertExpired, keysLeft, note } from '../support/expired-keys.js'
import { createEngine, createRideTables, type Database, pipeline } from '../support/rides.js'
import { gate, hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const HOUR_MS = 3_600_000
const MANY = 50

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.create()
})
afterEach(() => database.drop())

const NOTHING = { deleted: 0, held: 0, effectsDeleted: 0 }

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

describe('what is deleted', () => {
  // Shows I9.
  test('what is finished and expired, and nothing that is running or stuck, whatever its times say', async () => {
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

  test('a row that is being made running again is left', async () => {
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

  test('a key replays until it is deleted, expired or not; after that it is new', async () => {
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

  test('each pipeline has its own retention', async () => {
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
  test('none of their keys is touched', async () => {
    const { outcomes, replays, deleted } = await executeWhileReaping(24 * HOUR_MS)
    expect(typesOf(outcomes)).toEqual(new Set(['completed']))
    expect(typesOf(replays)).toEqual(new Set(['replayed']))
    expect(deleted).toBe(300)
    expect(await statuses()).toEqual([{ status: 'finished', count: MANY }])
  })

  test('those that expire as they finish are whole, and then gone', async () => {
    const { outcomes, deleted } = await executeWhileReaping(1)
    expect(typesOf(outcomes)).toEqual(new Set(['completed']))
    expect(await database.rows('SELECT DISTINCT what FROM audit')).toHaveLength(MANY)
    expect(await database.rows('SELECT what FROM audit')).toHaveLength(MANY)
    await database.rows('SELECT pg_sleep(0.002)')
    expect(deleted + (await countedReaper(database).reaper.runOnce()).deleted).toBe(300 + MANY)
    expect(await keysLeft(database)).toEqual([])
  })
})

describe('batches', () => {
  test('one statement each, and no more of them than it takes', async () => {
    await insertExpired(database, 95)
    const { reaper, sent } = countedReaper(database, { batchSize: 10 })
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 95 })
    expect(sent).toEqual([...Array.from({ length: 10 }, () => 'reap_keys'), 'reap_effects'])
  })

  test('those that expired first go first', async () => {
    const ids = await insertExpired(database, 30)
    const first = gate()
    const { reaper } = countedReaper(database, { batchSize: 10, pauseMs: 24 * HOUR_MS }, {}, first.open)
    reaper.start()
    await first.opened
    await reaper.stop()
    expect(await keysLeft(database)).toEqual(ids.slice(10))
  })

  test('with a pause between them, which a stop cuts short', async () => {
    await insertExpired(database, 95)
    const rounds = hear('pawl:round')
    const first = gate()
    const { reaper, sent } = countedReaper(database, { batchSize: 10, pauseMs: 24 * HOUR_MS }, {}, first.open)
    reaper.start()
    await first.opened
    // Time for many more, if there were no pause.
    for (let query = 0; query < 50; query++) await database.rows('SELECT 1')
    expect(sent).toEqual(['reap_keys'])
    await reaper.stop()
    expect(sent).toEqual(['reap_keys'])
    expect(rounds).toEqual([{ service: 'reaper', counts: { ...NOTHING, deleted: 10 } }])
    expect(await keysLeft(database)).toHaveLength(85)
  })

  test('a stop in the middle of one lets it end, and begins no other', async () => {
    await insertExpired(database, 95)
    const reached = gate()
    const go = gate()
    const { reaper, sent } = countedReaper(database, { batchSize: 10 }, {}, async () => {
      reached.open()
      await go.opened
    })
    reaper.start()
    await reached.opened
    const stopped = reaper.stop()
    go.open()
    await stopped
    expect(sent).toEqual(['reap_keys'])
    expect(await keysLeft(database)).toHaveLength(85)
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 85 })
  })

  test('many of one expiry are no trouble', async () => {
    await insertExpired(database, 95)
    await database.rows(`UPDATE pawl.idempotency_keys SET expires_at = '2001-01-01 00:00:00.0005'`)
    await insertExpired(database, 25, 'before all time')
    await database.rows(
      `UPDATE pawl.idempotency_keys SET expires_at = '-infinity' WHERE scope = 'before all time'`,
    )
    const { reaper, sent } = countedReaper(database, { batchSize: 10 })
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 120 })
    expect(countOf(sent, 'reap_keys')).toBe(13)
  })

  test('a locked row is left for the next time', async () => {
    const ids = await insertExpired(database, 25)
    const other = await database.admin.connect()
    await other.query('BEGIN')
    // As a foreign key does when a row that refers to the key is inserted.
    await other.query(
      `SELECT FROM ${database.schema}.idempotency_keys WHERE id = ANY ($1::uuid[]) FOR KEY SHARE`,
      [[ids[3], ids[14]]],
    )
    const { reaper, sent } = countedReaper(database, { batchSize: 10 })
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 23 })
    expect(countOf(sent, 'reap_keys')).toBe(3)
    await other.query('COMMIT')
    other.release()
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 2 })
  })

  test('two reapers do not wait for each other, and delete each row once', async () => {
    await insertExpired(database, 200)
    // The first one stalls in the middle of its statement, with rows locked.
    const stall = Math.floor(Math.random() * 2 ** 31)
    const application_name = `stalls_${randomUUID()}`
    await database.rows(
      `CREATE FUNCTION pawl.stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         WHILE current_setting('application_name') = '${application_name}'
               AND NOT pg_try_advisory_xact_lock_shared(${stall}) LOOP PERFORM pg_sleep(0.005); END LOOP;
         RETURN OLD; END $$;
       CREATE TRIGGER stall BEFORE DELETE ON pawl.idempotency_keys FOR EACH ROW EXECUTE FUNCTION pawl.stall()`,
    )
    const holder = await database.admin.connect()
    await holder.query('SELECT pg_advisory_lock($1)', [stall])
    const slow = countedReaper(
      database,
      { batchSize: 50 },
      { pool: database.pool({ max: 1, application_name }) },
    )
    const fast = countedReaper(database, { batchSize: 50 })
    const first = slow.reaper.runOnce()
    const stalled = `SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event = 'PgSleep'`
    while ((await database.rows(stalled, [application_name])).length === 0);
    const second = await fast.reaper.runOnce()
    expect(second.deleted).toBe(150)
    await holder.query('SELECT pg_advisory_unlock($1)', [stall])
    holder.release()
    expect((await first).deleted).toBe(50)
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

const insertEffects = (count: number, age: string) =>
  database.rows(
    `INSERT INTO pawl.effects (key_id, scope, key, pipeline, version, fence, phase, effect, provider_key, created_at)
     SELECT gen_random_uuid(), 's', n::text, 'note', 1, 1, 'p', 'e', 'k',
            clock_timestamp() - $2::interval + n * interval '1 ms' FROM generate_series(1, $1::integer) AS n`,
    [count, age],
  )
const effectsLeft = async () => (await database.rows('SELECT FROM pawl.effects')).length

describe('effects', () => {
  test('are deleted in batches after a retention of their own, and not before', async () => {
    await insertEffects(25, '49 hours')
    await insertEffects(7, '47 hours')
    await insertExpired(database, 1)
    const { reaper, sent } = countedReaper(database, { batchSize: 10, effectRetentionMs: 48 * HOUR_MS })
    expect(await reaper.runOnce()).toEqual({ deleted: 1, held: 0, effectsDeleted: 25 })
    expect(countOf(sent, 'reap_effects')).toBe(3)
    expect(await effectsLeft()).toBe(7)
  })

  test('are kept for 400 days if nothing else is said, and as long as the keys at least', async () => {
    await insertEffects(1, '401 days')
    await insertEffects(2, '399 days')
    const days500 = { defaults: { retentionMs: 500 * 24 * HOUR_MS } }
    expect(await countedReaper(database, {}, days500).reaper.runOnce()).toEqual(NOTHING)
    expect(await countedReaper(database).reaper.runOnce()).toEqual({ ...NOTHING, effectsDeleted: 1 })
    expect(await effectsLeft()).toBe(2)
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
  test('effects may not go before the keys of any pipeline', () => {
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
    [{ partition: 'x"; DROP TABLE y' }, `partition is 'x"; DROP TABLE y'`],
    [{ bachSize: 1 }, "unknown option 'bachSize'"],
  ])('%j is refused', (reaper, message) => {
    expect(() => createBackground({ engine: engineOf(), reaper: reaper as ReaperOptions })).toThrow(message)
  })
})
