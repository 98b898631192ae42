import { createBackground, retryLater } from '@pawl/core'
import { createProbedEngine, executeAtomic } from '@pawl/core/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cutConnections, positionNamer } from '../support/crash.js'
import { countedReaper, insertExpired, note } from '../support/expired-keys.js'
import { atMostOnceRideOf, skippedRide } from '../support/guarded-rides.js'
import { expectRecovered, tracesWithoutCrash } from '../support/ride-recovery.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables, pipeline } from '../support/rides.js'
import { gate } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { block, createFunctions, page, partitionOf, uuid7 } from './partition-page.js'

const DAY_MS = 24 * 3_600_000
/** A day in the middle of those that have a partition here. */
const DAY = '2031-05-14'

const database = await TestDatabase.createNew()
await createRideTables(database)
afterAll(() => database.drop())

const run = (name: string) => database.rows(block(name))

/** A ride whose client sends a UUIDv7 of that day. */
class RideOfDay extends RideTrial {
  override readonly key = uuid7(Date.parse(`${DAY}T12:00:00Z`)) as RideTrial['key']
}

const indexesOf = (of: TestDatabase) =>
  of.rows(
    `SELECT indexname, replace(replace(indexdef, $1, 'pawl'), 'ON ONLY', 'ON') AS definition FROM pg_indexes
      WHERE schemaname = $1 AND tablename = 'idempotency_keys' AND indexname <> 'idempotency_keys_pkey' ORDER BY 1`,
    [of.schema],
  )

const countIn = async (partition: string) =>
  (await database.rows(`SELECT FROM pawl.${partition} WHERE scope = 'expired'`)).length

const before = new RideTrial(database)

describe('partitioning the keys', () => {
  test('is refused while a foreign key refers to it', async () => {
    const client = await database.admin.connect()
    const sql = block('partition the keys').replaceAll('pawl.', `${database.schema}.`)
    await expect(client.query(sql)).rejects.toMatchObject({ code: '2BP01' })
    await client.query('ROLLBACK')
    client.release()
    await database.rows('ALTER TABLE rides DROP CONSTRAINT rides_key_id_fkey')
  })

  test('keeps the rows, the view, and every index under its name', async () => {
    const engine = createEngine(before.options())
    expect((await before.execute(engine)).type).toBe('completed')
    await run('partition the keys')
    expect((await before.execute(engine)).type).toBe('replayed')
    await engine.close()
    expect(await database.rows('SELECT key FROM pawl.keys')).toEqual([{ key: before.key }])
    expect(await partitionOf(database, before.key)).toBe('idempotency_keys_default')
    const plain = await TestDatabase.createNew()
    expect(await indexesOf(database)).toEqual(await indexesOf(plain))
    await plain.drop()
  })

  test('makes each day a range of UUIDv7, to the millisecond', async () => {
    await createFunctions(database)
    for (const day of ['2031-05-13', DAY, '2031-05-15']) {
      expect(await database.rows('SELECT pawl.create_day($1) AS created', [day])).toEqual([{ created: true }])
      expect(await database.rows('SELECT pawl.create_day($1) AS created', [day])).toEqual([
        { created: false },
      ])
    }
    const startMs = Date.parse(DAY)
    const engine = createEngine({ pool: database.pool(), pipelines: [note], schema: database.schema })
    const places = []
    for (const ms of [startMs - 1, startMs, startMs + DAY_MS - 1, startMs + DAY_MS]) {
      const key = uuid7(ms)
      await engine.execute(note, { scope: 'edges', key, input: null })
      places.push(await partitionOf(database, key))
    }
    expect(places).toEqual([
      'idempotency_keys_20310513',
      'idempotency_keys_20310514',
      'idempotency_keys_20310514',
      'idempotency_keys_20310515',
    ])
    await engine.close()
  })

  test('puts keys of a route, and nearly all keys in upper case, in the default partition', async () => {
    const engine = createEngine({ pool: database.pool(), pipelines: [note], schema: database.schema })
    const keyOfDay = uuid7(Date.parse(`${DAY}T12:00:00Z`))
    // Without a letter in its time, both cases would be in the same range.
    expect(keyOfDay.slice(0, 13)).toMatch(/[a-f]/)
    for (const key of [`POST /rides → ${keyOfDay}`, keyOfDay.toUpperCase()]) {
      expect(await engine.execute(note, { scope: 'cases', key, input: null })).toMatchObject({
        type: 'completed',
      })
      expect(await partitionOf(database, key)).toBe('idempotency_keys_default')
    }
    await engine.close()
  })

  test('starts days at the keys that the page shows', async () => {
    const examples = [...page.matchAll(/^(\S{13})-7…\s+first key of (\S+) UTC$/gm)]
    expect(examples).toHaveLength(2)
    for (const [, key, day] of examples) {
      expect(await database.rows('SELECT pawl.first_key_of($1) AS key', [day])).toEqual([{ key }])
    }
  })

  test('creates the next three days, and only once', async () => {
    expect(await run('create the next days')).toEqual(Array.from({ length: 3 }, () => ({ create_day: true })))
    expect(await run('create the next days')).toEqual(
      Array.from({ length: 3 }, () => ({ create_day: false })),
    )
  })

  test('leaves a future day, and no other, in the default partition if one of its keys is already there', async () => {
    const early = uuid7(Date.parse('2032-02-02T05:00:00Z'))
    const engine = createEngine({ pool: database.pool(), pipelines: [note], schema: database.schema })
    await engine.execute(note, { scope: 'early', key: early, input: null })
    const created = await database.rows(
      `SELECT pawl.create_day(day) AS created FROM unnest('{2032-02-01,2032-02-02,2032-02-03}'::date[]) AS day`,
    )
    expect(created).toEqual([{ created: true }, { created: false }, { created: true }])
    expect(await engine.execute(note, { scope: 'early', key: early, input: null })).toMatchObject({
      type: 'replayed',
    })
    await engine.close()
  })

  test('would not be possible by created_at: PostgreSQL refuses the unique constraint', async () => {
    await expect(
      database.rows(
        'CREATE TABLE pawl.by_time (scope text, key text, at timestamptz, UNIQUE (scope, key)) PARTITION BY RANGE (at)',
      ),
    ).rejects.toMatchObject({ code: '0A000' })
  })
})

describe('requests on the partitioned table', () => {
  let oracle: unknown
  beforeAll(async () => {
    oracle = await tracesWithoutCrash(new RideOfDay(database), database.pool())
  })

  test('a ride that dies at any position is resumed and ends as if nothing had happened', async () => {
    const pool = database.pool()
    const positions = await new RideOfDay(database).positions()
    expect(positions.length).toBeGreaterThan(20)
    for (const at of positions) {
      const trial = new RideOfDay(database)
      expect([at, await trial.dieAt(at)]).toEqual([at, 'died'])
      await expectRecovered(trial, pool, oracle)
      expect(await partitionOf(database, trial.key)).toBe('idempotency_keys_20310514')
    }
  })

  test('a lost COMMIT is settled', async () => {
    const trial = new RideOfDay(database)
    const pool = database.pool({ max: 2 })
    const name = positionNamer()
    const engine = createProbedEngine(trial.options(pool), (position) => {
      if (name(position) === 'ride_created/commit#1:before') cutConnections(pool)
    })
    const outcome = await trial.execute(engine)
    if (outcome.type !== 'completed') throw outcome
    expect(await trial.row()).toMatchObject({ fence: '2' })
    await engine.close()
  })

  test('calls are refused, left unsettled and skipped, and keys given back, stuck and forgotten, as in a plain table', async () => {
    const refused = new RideOfDay(database)
    await refused.provider.willMeet('refuse_500')
    const uncertain = new RideOfDay(database, atMostOnceRideOf)
    await uncertain.provider.willMeet('refuse_500')
    const skipped = new RideOfDay(database, skippedRide)
    const types: string[] = []
    for (const trial of [refused, refused, uncertain, uncertain, skipped, skipped]) {
      const engine = createEngine(trial.options())
      types.push((await trial.execute(engine)).type)
      await engine.close()
    }
    expect(types).toEqual(['retry_later', 'completed', 'stuck', 'stuck', 'completed', 'replayed'])

    const atomicNote = pipeline<null>({ name: 'note', version: 1 }).finish(() => retryLater())
    const engine = createEngine({ pool: database.pool(), pipelines: [note], schema: database.schema })
    const request = { scope: 'note', key: uuid7(Date.parse(DAY)), input: null }
    expect((await executeAtomic(engine, atomicNote, request)).type).toBe('retry_later')
    expect(await engine.inspect(request.scope, request.key)).toBeNull()
    await engine.close()
  })

  test('leases are renewed during a call', async () => {
    const trial = new RideOfDay(database)
    await trial.provider.willMeet('hold_then_execute')
    const renewed = gate()
    const engine = createProbedEngine(
      trial.options(database.pool(), { defaults: { leaseMs: 600 } }),
      ({ step, when }) => {
        if (step === 'renew_leases' && when === 'after') renewed.open()
      },
    )
    const execution = trial.execute(engine)
    await trial.provider.arrived()
    await renewed.opened
    await trial.provider.letGo()
    expect((await execution).type).toBe('completed')
    expect(await trial.row()).toMatchObject({ fence: '1' })
    await engine.close()
  })

  test('many concurrent requests with one key get one row and one charge', async () => {
    const trial = new RideOfDay(database)
    const engine = createEngine(trial.options())
    const types = await Promise.all(
      Array.from({ length: 50 }, async () => (await trial.execute(engine)).type),
    )
    expect(types.filter((type) => type === 'completed')).toHaveLength(1)
    expect(types.filter((type) => type !== 'in_flight' && type !== 'replayed')).toHaveLength(1)
    expect(await trial.provider.ledger()).toHaveLength(1)
    await engine.close()
  })

  test('a retry after midnight finds the row from before', async () => {
    const trial = new RideOfDay(database)
    expect(await trial.dieAt('charge_created/call#1:after')).toBe('died')
    await database.expireLeases()
    await database.rows(
      `UPDATE pawl.idempotency_keys SET created_at = created_at - interval '12 hours' WHERE key = $1`,
      [trial.key],
    )
    const engine = createEngine(trial.options())
    expect((await trial.execute(engine)).type).toBe('completed')
    expect((await trial.execute(engine)).type).toBe('replayed')
    await engine.close()
    expect(await trial.provider.ledger()).toHaveLength(1)
    expect(await trial.rides()).toHaveLength(1)
  })

  test('the completer finishes an unattended key', async () => {
    const trial = new RideOfDay(database)
    expect(await trial.dieAt('charge_created/call#1:after')).toBe('died')
    await database.expireLeases()
    const engine = createEngine(trial.options())
    const { completer } = createBackground({ engine, reaper: false })
    await completer?.runOnce()
    expect(await trial.row()).toMatchObject({ status: 'finished', fence: '2' })
    expect(await trial.provider.ledger()).toHaveLength(1)
    await engine.close()
  })
})

describe('deleting expired keys', () => {
  test('the reaper deletes from one partition if told to, and otherwise from all', async () => {
    await insertExpired(database, 30)
    const day = await insertExpired(database, 5, 'of a day')
    await database.rows(
      `UPDATE pawl.idempotency_keys SET scope = 'expired', key = $2 || key WHERE id = ANY ($1::uuid[])`,
      [day, uuid7(Date.parse(DAY)).slice(0, 14)],
    )
    expect([await countIn('idempotency_keys_20310514'), await countIn('idempotency_keys_default')]).toEqual([
      5, 30,
    ])
    const one = countedReaper(database, { batchSize: 10, partition: 'idempotency_keys_default' })
    expect(await one.reaper.runOnce()).toMatchObject({ deleted: 30, held: 0 })
    expect([await countIn('idempotency_keys_20310514'), await countIn('idempotency_keys_default')]).toEqual([
      5, 0,
    ])
    expect(await countedReaper(database).reaper.runOnce()).toMatchObject({ deleted: 5, held: 0 })
  })

  test('a partition that does not exist is an error', async () => {
    const { reaper } = countedReaper(database, { partition: 'idempotency_keys_defualt' })
    await expect(reaper.runOnce()).rejects.toMatchObject({ code: '42P01' })
  })
})
