import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { at, countedReaper, countOf, insertExpired, keysLeft, note } from '../support/expired-keys.js'
import { createEngine } from '../support/rides.js'
import { gate, hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { NOTHING } from './nothing-reaped.js'

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.createPlain()
})
afterEach(() => database.drop())

/** How many statements it takes to find one held key in a full batch of this size, including the batch that failed. */
const statementsForOne = (size: number) => 2 * Math.ceil(Math.log2(size)) + 4

async function createTrips(reference: string): Promise<void> {
  await database.rows(
    `CREATE TABLE ${database.businessSchema}.trips (
       key_id uuid CONSTRAINT trips_key REFERENCES pawl.idempotency_keys (id) ${reference});
     CREATE INDEX ON ${database.businessSchema}.trips (key_id)`,
  )
}

const refer = (keyIds: readonly (string | undefined)[]) =>
  database.rows('INSERT INTO trips SELECT unnest($1::uuid[])', [keyIds])

/** Expects each key to expire between an hour and a week from now. */
async function expectPutOff(keyIds: readonly (string | undefined)[]): Promise<void> {
  const rows = await database.rows<{ later: boolean }>(
    `SELECT expires_at BETWEEN clock_timestamp() + interval '59 minutes' AND clock_timestamp() + interval '7 days' AS later
       FROM pawl.idempotency_keys WHERE id = ANY ($1::uuid[])`,
    [keyIds],
  )
  expect(rows).toEqual(keyIds.map(() => ({ later: true })))
}

const comeUpAgain = () =>
  database.rows(`UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() - interval '1 second'`)

describe('a key that a row of the application refers to', () => {
  test.each(['', 'ON DELETE RESTRICT', 'DEFERRABLE INITIALLY DEFERRED', 'ON DELETE SET NULL NOT NULL'])(
    'by REFERENCES … (id) %s is left, reported and put off, and all others go',
    async (reference) => {
      await createTrips(reference)
      const ids = await insertExpired(database, 60)
      const kept = [ids[3], ids[17], ids[59]]
      await refer(kept)
      const reports = hear('pawl:reap_held')
      const { reaper } = countedReaper(database, { batchSize: 20 })
      expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 57, held: 3 })
      expect(new Set(await keysLeft(database))).toEqual(new Set(kept))
      const constraint = reference.endsWith('NOT NULL') ? null : 'trips_key'
      expect(reports).toEqual([
        { keyIds: kept.slice(0, 2), constraint },
        { keyIds: kept.slice(2), constraint },
      ])
      await expectPutOff(kept)
      expect(await reaper.runOnce()).toEqual(NOTHING)

      await comeUpAgain()
      expect(await reaper.runOnce()).toEqual({ ...NOTHING, held: 3 })
      await database.rows('DELETE FROM trips')
      expect(await reaper.runOnce()).toEqual(NOTHING)
      await comeUpAgain()
      expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 3 })
    },
  )

  test('still replays', async () => {
    await createTrips('')
    const engine = createEngine({ pool: database.pool(), pipelines: [note], schema: database.schema })
    const request = { scope: 'rider', key: randomUUID(), input: null }
    const completed = await engine.execute(note, request)
    if (completed.type !== 'completed') throw completed
    const [keyId] = await keysLeft(database)
    await refer([keyId])
    await comeUpAgain()
    expect(await countedReaper(database).reaper.runOnce()).toEqual({ ...NOTHING, held: 1 })
    expect(await engine.execute(note, request)).toMatchObject({
      type: 'replayed',
      response: completed.response,
    })
    await engine.close()
  })

  test('is put off for as long as it is old, between an hour and a week', async () => {
    await createTrips('')
    const ids = await insertExpired(database, 3)
    await refer(ids)
    const ages = ['1 minute', '5 hours', '1 year']
    for (const [index, id] of ids.entries()) {
      await database.rows(
        `UPDATE pawl.idempotency_keys SET updated_at = clock_timestamp() - $2::interval WHERE id = $1`,
        [id, ages[index]],
      )
    }
    await countedReaper(database).reaper.runOnce()
    const rows = await database.rows<{ minutes: string }>(
      `SELECT extract(epoch FROM expires_at - clock_timestamp()) / 60 AS minutes FROM pawl.idempotency_keys
        ORDER BY array_position($1::uuid[], id)`,
      [ids],
    )
    // This test takes some of those minutes, but never ten.
    const tens = rows.map(({ minutes }) => Math.round(Number(minutes) / 10) * 10)
    expect(tens).toEqual([60, 5 * 60, 7 * 24 * 60])
  })

  test('costs few statements if few are held', async () => {
    await createTrips('')
    const ids = await insertExpired(database, 500)
    await refer([ids[321]])
    const { reaper, sent } = countedReaper(database, { batchSize: 500 })
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 499, held: 1 })
    expect(sent.slice(0, 2)).toEqual(['reap_keys', 'find_expired_keys'])
    // The batch was full, so one more statement looks for another.
    expect(countOf(sent, 'reap_keys')).toBe(2)
    const forOne = sent.filter((step) => step !== 'reap_effects').length - 1
    expect(forOne).toBeLessThanOrEqual(statementsForOne(500))
    expect(forOne).toBeGreaterThan(statementsForOne(500) - 4)
  })

  test('costs two statements per key if all are held', async () => {
    await createTrips('')
    const ids = await insertExpired(database, 100)
    await refer(ids)
    const { reaper, sent } = countedReaper(database, { batchSize: 500 })
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, held: 100 })
    expect(countOf(sent, 'reap_these_keys')).toBe(2 * 100 - 1)
    expect(sent).toHaveLength(
      2 * 100 - 1 + 'reap_keys, find_expired_keys, put_off_keys, reap_effects'.split(',').length,
    )
    expect(await reaper.runOnce()).toEqual(NOTHING)
  })

  test('does not keep a stop waiting, which leaves the rest of the batch', async () => {
    await createTrips('')
    const ids = await insertExpired(database, 64)
    await refer(ids)
    const found = gate()
    const go = gate()
    const { reaper, sent } = countedReaper(
      database,
      {},
      {},
      at('find_expired_keys', async () => {
        found.open()
        await go.opened
      }),
    )
    reaper.start()
    await found.opened
    const stopped = reaper.stop()
    go.open()
    await stopped
    expect(sent).toEqual(['reap_keys', 'find_expired_keys'])
    expect(await keysLeft(database)).toEqual(ids)
  })
})

describe('between finding the keys of a batch and deleting them', () => {
  test('a key that became running, was given more time or was locked is left alone', async () => {
    await createTrips('')
    const [running, later, locked, heldKey, ...others] = await insertExpired(database, 12)
    await refer([heldKey])
    const other = await database.admin.connect()
    const { reaper } = countedReaper(
      database,
      {},
      {},
      at('find_expired_keys', async () => {
        await database.rows(
          `UPDATE pawl.idempotency_keys SET status = 'running', recovery_point = 'started', response_status = NULL, response_body = NULL
          WHERE id = $1`,
          [running],
        )
        await database.rows(
          `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() + interval '1 day' WHERE id = $1`,
          [later],
        )
        await other.query('BEGIN')
        await other.query(`SELECT FROM ${database.schema}.idempotency_keys WHERE id = $1 FOR UPDATE`, [
          locked,
        ])
      }),
    )
    const reports = hear('pawl:reap_held')
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: others.length, held: 1 })
    await other.query('ROLLBACK')
    other.release()
    expect(reports).toEqual([{ keyIds: [heldKey], constraint: 'trips_key' }])
    expect(new Set(await keysLeft(database))).toEqual(new Set([running, later, locked, heldKey]))
  })

  test('a key that was held and then changed is not put off', async () => {
    await createTrips('')
    const [running, later] = await insertExpired(database, 2)
    await refer([running, later])
    let tried = 0
    const { reaper } = countedReaper(
      database,
      {},
      {},
      () => {},
      at('put_off_keys', async () => {
        tried++
        await database.rows(
          `UPDATE pawl.idempotency_keys SET status = 'running', recovery_point = 'started', response_status = NULL, response_body = NULL
          WHERE id = $1`,
          [running],
        )
        await database.rows(`UPDATE pawl.idempotency_keys SET expires_at = '2101-01-01Z' WHERE id = $1`, [
          later,
        ])
      }),
    )
    await reaper.runOnce()
    expect(tried).toBe(1)
    expect(
      await database.rows(
        `SELECT id, expires_at < clock_timestamp() AS past, expires_at = '2101-01-01Z' AS as_given
           FROM pawl.idempotency_keys ORDER BY expires_at`,
      ),
    ).toEqual([
      { id: running, past: true, as_given: false },
      { id: later, past: false, as_given: true },
    ])
  })
})

describe('a key is also held by', () => {
  test('a trigger that raises, with any code', async () => {
    const ids = await insertExpired(database, 30)
    await database.rows(
      `CREATE FUNCTION pawl.guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         IF OLD.key = '7' THEN RAISE 'not this one'; END IF;
         IF OLD.key = '8' THEN RAISE 'nor this' USING ERRCODE = 'AB123'; END IF;
         IF OLD.key = '9' THEN PERFORM 1 / 0; END IF;
         RETURN OLD; END $$;
       CREATE TRIGGER guard BEFORE DELETE ON pawl.idempotency_keys FOR EACH ROW EXECUTE FUNCTION pawl.guard()`,
    )
    const reports = hear('pawl:reap_held')
    const { reaper } = countedReaper(database, { batchSize: 10 })
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 27, held: 3 })
    expect(reports).toEqual([{ keyIds: ids.slice(6, 9), constraint: null }])
    await expectPutOff(ids.slice(6, 9))
  })

  test('a trigger that keeps rows without an error, which does not keep the rows behind them', async () => {
    const ids = await insertExpired(database, 30)
    await database.rows(
      `CREATE FUNCTION pawl.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         RETURN CASE WHEN OLD.key::integer > 10 THEN OLD END; END $$;
       CREATE TRIGGER keep BEFORE DELETE ON pawl.idempotency_keys FOR EACH ROW EXECUTE FUNCTION pawl.keep()`,
    )
    const reports = hear('pawl:reap_held')
    const { reaper, sent } = countedReaper(database, { batchSize: 10 })
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 20, held: 10 })
    expect(reports).toEqual([{ keyIds: ids.slice(0, 10), constraint: null }])
    expect(countOf(sent, 'put_off_keys')).toBe(1)
    await expectPutOff(ids.slice(0, 10))
  })

  test('a lock on a row whose reference to the key would be set to null', async () => {
    await createTrips('ON DELETE SET NULL')
    const ids = await insertExpired(database, 8)
    await refer(ids)
    const other = await database.admin.connect()
    await other.query('BEGIN')
    await other.query('SELECT FROM trips WHERE key_id = $1 FOR UPDATE', [ids[5]])
    const reports = hear('pawl:reap_held')
    const { reaper } = countedReaper(database)
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 7, held: 1 })
    expect(reports).toEqual([{ keyIds: [ids[5]], constraint: null }])
    expect(await keysLeft(database)).toEqual([ids[5]])
    await other.query('COMMIT')
    other.release()
    await comeUpAgain()
    expect(await reaper.runOnce()).toEqual({ ...NOTHING, deleted: 1 })
    expect(await database.rows('SELECT count(*)::int, count(key_id)::int AS referring FROM trips')).toEqual([
      { count: 8, referring: 0 },
    ])
  })
})
