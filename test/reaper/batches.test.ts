import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { countedReaper, countOf, insertExpired, keysLeft } from '../support/expired-keys.js'
import { gate, hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { NOTHING } from './nothing-reaped.js'

const HOUR_MS = 3_600_000

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.create()
})
afterEach(() => database.drop())

describe('batches', () => {
  test('take one statement each, and there are no more of them than needed', async () => {
    await insertExpired(database, 95)
    const { reaper, sent } = countedReaper(database, { batchSize: 10 })
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 95 })
    expect(sent).toEqual([...Array.from({ length: 10 }, () => 'reap_keys'), 'reap_effects'])
  })

  test('begin with the keys that expired first', async () => {
    const ids = await insertExpired(database, 30)
    const first = gate()
    const { reaper } = countedReaper(database, { batchSize: 10, pauseMs: 24 * HOUR_MS }, {}, first.open)
    reaper.start()
    await first.opened
    await reaper.stop()
    expect(await keysLeft(database)).toEqual(ids.slice(10))
  })

  test('have a pause between them, which a stop cuts short', async () => {
    await insertExpired(database, 95)
    const rounds = hear('pawl:round')
    const first = gate()
    const { reaper, sent } = countedReaper(database, { batchSize: 10, pauseMs: 24 * HOUR_MS }, {}, first.open)
    reaper.start()
    await first.opened
    // There would be time for many more, if there were no pause.
    for (let query = 0; query < 50; query++) await database.rows('SELECT 1')
    expect(sent).toEqual(['reap_keys'])
    await reaper.stop()
    expect(sent).toEqual(['reap_keys'])
    expect(rounds).toEqual([{ service: 'reaper', counts: { ...NOTHING, deleted: 10 } }])
    expect(await keysLeft(database)).toHaveLength(85)
  })

  test('are not begun any more after a stop, which lets the current one end', async () => {
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

  test('may have many keys that expire at the same moment', async () => {
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

  test('leave a locked row for the next round', async () => {
    const ids = await insertExpired(database, 25)
    const other = await database.admin.connect()
    await other.query('BEGIN')
    // As a foreign key does it when a row that refers to the key is inserted.
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

  test('of two reapers do not wait for each other, and delete each row once', async () => {
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
