import { randomBytes, randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createBackground, retryLater } from '@pawl/core'
import { createProbedEngine, executeAtomic } from '@pawl/core/internal'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cutConnections, positionNamer } from '../support/crash.js'
import { countedReaper, insertExpired, note } from '../support/expired-keys.js'
import { atMostOnceRideOf, skippedRide } from '../support/guarded-rides.js'
import { expectRecovered, tracesWithoutCrash } from '../support/ride-recovery.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables, pipeline } from '../support/rides.js'
import { gate, waitingForLock } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const PAGE = new URL('../../docs/partitioning.md', import.meta.url)
const DAY_MS = 24 * 3_600_000
/** A day in the middle of those that have a partition here. */
const DAY = '2031-05-14'

const database = await TestDatabase.createNew()
await createRideTables(database)
afterAll(() => database.drop())

const page = await readFile(PAGE, 'utf8')
const blocks = new Map(
  [...page.matchAll(/^```sql\n-- (.*?)\n(.*?)^```$/gms)].map(
    ([, name = '', sql = '']) => [name, sql] as const,
  ),
)

function block(name: string): string {
  const sql = blocks.get(name)
  if (sql === undefined) throw new Error(`the page has no SQL block '${name}'`)
  return sql
}

const run = (name: string) => database.rows(block(name))

/** A UUIDv7 as clients make them. */
function uuid7(ms: number): string {
  const time = ms.toString(16).padStart(12, '0')
  const random = randomBytes(10).toString('hex')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-b${random.slice(3, 6)}-${random.slice(6, 18)}`
}

/** A ride whose client sends a UUIDv7 of that day. */
class RideOfDay extends RideTrial {
  override readonly key = uuid7(Date.parse(`${DAY}T12:00:00Z`)) as RideTrial['key']
}

const partitionOf = async (key: string) => {
  const [row] = await database.rows<{ name: string }>(
    `SELECT relname AS name FROM pawl.idempotency_keys AS k JOIN pg_class AS c ON c.oid = k.tableoid WHERE k.key = $1`,
    [key],
  )
  return row?.name
}

const indexesOf = (of: TestDatabase) =>
  of.rows(
    `SELECT indexname, replace(replace(indexdef, $1, 'pawl'), 'ON ONLY', 'ON') AS definition FROM pg_indexes
      WHERE schemaname = $1 AND tablename = 'idempotency_keys' AND indexname <> 'idempotency_keys_pkey' ORDER BY 1`,
    [of.schema],
  )

const countIn = async (partition: string) =>
  (await database.rows(`SELECT FROM pawl.${partition} WHERE scope = 'expired'`)).length

const dropDay = (day: string) => database.rows('SELECT pawl.drop_day($1)', [day])
const exists = async (name: string) => {
  const [row] = await database.rows<{ found: boolean }>(
    `SELECT to_regclass('pawl.${name}') IS NOT NULL AS found`,
  )
  return row?.found
}

const before = new RideTrial(database)

describe('changing the table', () => {
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
    expect(await partitionOf(before.key)).toBe('idempotency_keys_default')
    const plain = await TestDatabase.createNew()
    expect(await indexesOf(database)).toEqual(await indexesOf(plain))
    await plain.drop()
  })

  test('days are ranges of UUIDv7, to the millisecond', async () => {
    await run('functions to create days')
    await run('function to drop a day')
    await run('procedure to drop old days')
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
      places.push(await partitionOf(key))
    }
    expect(places).toEqual([
      'idempotency_keys_20310513',
      'idempotency_keys_20310514',
      'idempotency_keys_20310514',
      'idempotency_keys_20310515',
    ])
    await engine.close()
  })

  test('keys of a route, and nearly all in upper case, go to the default partition', async () => {
    const engine = createEngine({ pool: database.pool(), pipelines: [note], schema: database.schema })
    const keyOfDay = uuid7(Date.parse(`${DAY}T12:00:00Z`))
    // Without a letter in its time, both cases would be in the same range.
    expect(keyOfDay.slice(0, 13)).toMatch(/[a-f]/)
    for (const key of [`POST /rides → ${keyOfDay}`, keyOfDay.toUpperCase()]) {
      expect(await engine.execute(note, { scope: 'cases', key, input: null })).toMatchObject({
        type: 'completed',
      })
      expect(await partitionOf(key)).toBe('idempotency_keys_default')
    }
    await engine.close()
  })

  test('the examples of the page are right', async () => {
    const examples = [...page.matchAll(/^(\S{13})-7…\s+first key of (\S+) UTC$/gm)]
    expect(examples).toHaveLength(2)
    for (const [, key, day] of examples) {
      expect(await database.rows('SELECT pawl.first_key_of($1) AS key', [day])).toEqual([{ key }])
    }
  })

  test('the next three days are created, and once only', async () => {
    expect(await run('create the next days')).toEqual(Array.from({ length: 3 }, () => ({ create_day: true })))
    expect(await run('create the next days')).toEqual(
      Array.from({ length: 3 }, () => ({ create_day: false })),
    )
  })

  test('a key of a day to come keeps that day in the default partition, and no other', async () => {
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

  test('by created_at it would not be possible: PostgreSQL refuses the unique constraint', async () => {
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

  test('a ride that dies at any position is taken up and ends as if nothing had happened', async () => {
    const pool = database.pool()
    const positions = await new RideOfDay(database).positions()
    expect(positions.length).toBeGreaterThan(20)
    for (const at of positions) {
      const trial = new RideOfDay(database)
      expect([at, await trial.dieAt(at)]).toEqual([at, 'died'])
      await expectRecovered(trial, pool, oracle)
      expect(await partitionOf(trial.key)).toBe('idempotency_keys_20310514')
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

  test('calls that are refused, unsettled, skipped; keys that are given back, stuck, forgotten', async () => {
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

  test('many at once with one key: one row, one charge', async () => {
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

  test('the completer finishes what was unattended', async () => {
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

describe('deleting', () => {
  test('the reaper deletes from the default partition only, if told to, and else from all', async () => {
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

  test('a partition that does not exist is an error, not nothing to do', async () => {
    const { reaper } = countedReaper(database, { partition: 'idempotency_keys_defualt' })
    await expect(reaper.runOnce()).rejects.toMatchObject({ code: '42P01' })
  })
})

describe('dropping a day', () => {
  let days = 0
  /** A day of its own, with one finished key that has expired. */
  async function dayWithKey() {
    const day = new Date(Date.parse('2033-01-01') + days++ * DAY_MS).toISOString().slice(0, 10)
    await database.rows('SELECT pawl.create_day($1)', [day])
    const [id] = await insertExpired(database, 1, `day ${day}`)
    const key = uuid7(Date.parse(`${day}T10:00:00Z`))
    await database.rows('UPDATE pawl.idempotency_keys SET key = $2 WHERE id = $1', [id, key])
    return { day, key, id, partition: `idempotency_keys_${day.replaceAll('-', '')}` }
  }

  test('works when all of it has expired; then its keys are new', async () => {
    const { day, key, partition } = await dayWithKey()
    expect(await partitionOf(key)).toBe(partition)
    await dropDay(day)
    expect(await exists(partition)).toBe(false)
    const engine = createEngine({ pool: database.pool(), pipelines: [note], schema: database.schema })
    const request = { scope: `day ${day}`, key, input: null }
    expect((await engine.execute(note, request)).type).toBe('completed')
    expect(await partitionOf(key)).toBe('idempotency_keys_default')
    await engine.close()
  })

  test.each([
    ['running', `status = 'running', recovery_point = 'started', response_body = NULL`],
    ['stuck', `status = 'stuck', stuck_reason = 'too_old', recovery_point = 'started', response_body = NULL`],
    ['not yet expired', `expires_at = clock_timestamp() + interval '1 minute'`],
  ])('is refused while a key of it is %s', async (condition, change) => {
    const { day, id, partition } = await dayWithKey()
    await database.rows(`UPDATE pawl.idempotency_keys SET ${change} WHERE id = $1`, [id])
    await expect(dropDay(day)).rejects.toMatchObject({
      code: '55006',
      message: `the partition ${partition} stays: it has keys that are ${condition}`,
    })
    expect(await exists(partition)).toBe(true)
  })

  test('sees a key that is committed while it waits for the lock', async () => {
    const { day, partition } = await dayWithKey()
    const patient = block('function to drop a day')
      .replace('CREATE FUNCTION', 'CREATE OR REPLACE FUNCTION')
      .replace("lock_timeout = '1s'", "lock_timeout = '60s'")
    await database.rows(patient)
    const client = await database.admin.connect()
    await client.query('BEGIN')
    await client.query(
      `INSERT INTO ${database.schema}.idempotency_keys
         (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder)
       VALUES ('late', $1, 'note', 1, '0123456789abcdef', sha256(''), 1, '{}', gen_random_uuid())`,
      [uuid7(Date.parse(`${day}T23:00:00Z`))],
    )
    const application_name = `dropper_${randomUUID()}`
    const dropper = database.pool({ max: 1, application_name })
    const dropping = dropper.query(`SELECT ${database.schema}.drop_day($1)`, [day])
    const refused = expect(dropping).rejects.toMatchObject({ code: '55006' })
    await waitingForLock(database, application_name)
    await client.query('COMMIT')
    client.release()
    await refused
    expect(await exists(partition)).toBe(true)

    for (const level of ['REPEATABLE READ', 'SERIALIZABLE']) {
      const other = await database.admin.connect()
      await other.query(`BEGIN ISOLATION LEVEL ${level}`)
      await expect(other.query(`SELECT ${database.schema}.drop_day($1)`, [day])).rejects.toThrow(
        'needs READ COMMITTED',
      )
      await other.query('ROLLBACK')
      other.release()
    }
    await database.rows(block('function to drop a day').replace('CREATE', 'CREATE OR REPLACE'))
  })

  test('takes three index probes to see that it may, however many keys there are', async () => {
    const { id, partition } = await dayWithKey()
    await database.rows(
      `INSERT INTO pawl.${partition}
       SELECT (jsonb_populate_record(k, jsonb_build_object('id', gen_random_uuid(), 'key', k.key || n))).*
         FROM pawl.idempotency_keys AS k, generate_series(1, 5000) AS n WHERE k.id = $1`,
      [id],
    )
    await database.rows(`ANALYZE pawl.${partition}`)
    const check = /\$sql\$(.*?)\$sql\$/s.exec(block('function to drop a day'))?.[1] ?? ''
    const client = await database.admin.connect()
    await client.query('BEGIN')
    await client.query('SET LOCAL enable_seqscan = off')
    const { rows } = await client.query<{ 'QUERY PLAN': string }>(
      `EXPLAIN (COSTS OFF) ${check.replaceAll('pawl.%1$I', `${database.schema}.${partition}`)}`,
    )
    await client.query('ROLLBACK')
    client.release()
    const scans = rows.map((row) => row['QUERY PLAN'].trim()).filter((line) => line.includes('Scan'))
    expect(scans).toEqual([
      expect.stringMatching(/Index .*Scan using \w+_pipeline_version_created_at_idx/),
      expect.stringMatching(/Index .*Scan using \w+_pipeline_version_created_at_idx1/),
      expect.stringMatching(/Index .*Scan Backward using \w+_expires_at_idx/),
    ])
  })

  test('of one that is not there gives false, also where another dropped it meanwhile', async () => {
    expect(await dropDay('2040-01-01')).toEqual([{ drop_day: false }])
    const { day, partition } = await dayWithKey()
    const patient = block('function to drop a day')
      .replace('CREATE FUNCTION', 'CREATE OR REPLACE FUNCTION')
      .replace("lock_timeout = '1s'", "lock_timeout = '60s'")
    await database.rows(patient)
    const first = await database.admin.connect()
    await first.query('BEGIN')
    const drop = `SELECT ${database.schema}.drop_day($1)`
    expect((await first.query<{ drop_day: boolean }>(drop, [day])).rows).toEqual([{ drop_day: true }])
    const application_name = `dropper_${randomUUID()}`
    const second = database.pool({ max: 1, application_name }).query(drop, [day])
    await waitingForLock(database, application_name)
    await first.query('COMMIT')
    first.release()
    expect((await second).rows).toEqual([{ drop_day: false }])
    expect(await exists(partition)).toBe(false)
    await database.rows(block('function to drop a day').replace('CREATE', 'CREATE OR REPLACE'))
  })

  test('gives up when it does not get the lock', async () => {
    const { day, partition } = await dayWithKey()
    const client = await database.admin.connect()
    await client.query('BEGIN')
    await client.query(`SELECT FROM ${database.schema}.idempotency_keys LIMIT 1`)
    await expect(dropDay(day)).rejects.toMatchObject({ code: '55P03' })
    await client.query('ROLLBACK')
    client.release()
    await dropDay(day)
    expect(await exists(partition)).toBe(false)
  })
})

/** Days of its own year, oldest first, each with one finished key that has expired. */
async function oldDays(year: number) {
  const days = [1, 2, 3, 4].map((day) => `${year}-03-0${day}`)
  for (const day of days) {
    await database.rows('SELECT pawl.create_day($1)', [day])
    const [id] = await insertExpired(database, 1, `day ${day}`)
    const key = uuid7(Date.parse(`${day}T10:00:00Z`))
    await database.rows('UPDATE pawl.idempotency_keys SET key = $2 WHERE id = $1', [id, key])
  }
  return days
}

/** Runs it as psql would, and gives what it warned of. */
async function dropUpTo(day: string): Promise<string[]> {
  const warnings: string[] = []
  const client = await database.admin.connect()
  const listen = ({ message = '' }: { message?: string | undefined }) => void warnings.push(message)
  client.on('notice', listen)
  try {
    await client.query(`CALL ${database.schema}.drop_days_up_to('${day}')`)
    return warnings
  } finally {
    client.off('notice', listen)
    client.release()
  }
}

const stillThere = async (days: readonly string[]) => {
  const found = await Promise.all(
    days.map(async (day) => ({ day, there: await exists(`idempotency_keys_${day.replaceAll('-', '')}`) })),
  )
  return found.filter(({ there }) => there).map(({ day }) => day)
}

const dayAgo = (days: number) => new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10)

describe('dropping old days', () => {
  test('one that is refused becomes a warning, the others go, and it is tried again', async () => {
    const days = await oldDays(2021)
    await database.rows(
      `UPDATE pawl.idempotency_keys SET status = 'stuck', stuck_reason = 'too_old', recovery_point = 'started', response_body = NULL
        WHERE scope = 'day 2021-03-02'`,
    )
    expect(await dropUpTo('2021-03-03')).toEqual([
      '2021-03-02: the partition idempotency_keys_20210302 stays: it has keys that are stuck',
    ])
    expect(await stillThere(days)).toEqual(['2021-03-02', '2021-03-04'])

    await database.rows(`DELETE FROM pawl.idempotency_keys WHERE scope = 'day 2021-03-02'`)
    expect(await dropUpTo('2021-03-03')).toEqual([])
    expect(await stillThere(days)).toEqual(['2021-03-04'])
  })

  test('one that does not get its lock becomes a warning', async () => {
    const days = await oldDays(2022)
    const client = await database.admin.connect()
    await client.query('BEGIN')
    await client.query(`SELECT FROM ${database.schema}.idempotency_keys LIMIT 1`)
    expect(await dropUpTo('2022-03-01')).toEqual([
      expect.stringMatching(/^2021-03-04: .*lock timeout/),
      expect.stringMatching(/^2022-03-01: .*lock timeout/),
    ])
    await client.query('ROLLBACK')
    client.release()
    expect(await stillThere(days)).toEqual(days)
  })

  test('each day is a transaction of its own', async () => {
    const days = await oldDays(2023)
    await database.rows(
      block('function to drop a day')
        .replace('CREATE', 'CREATE OR REPLACE')
        .replace('RETURN true;', `IF day = '2023-03-04' THEN RAISE 'ended here'; END IF; RETURN true;`),
    )
    await expect(dropUpTo('2023-03-04')).rejects.toThrow('ended here')
    expect(await stillThere(days)).toEqual(['2023-03-04'])
    await database.rows(block('function to drop a day').replace('CREATE', 'CREATE OR REPLACE'))
  })

  test('the last block drops what is three days old, and nothing else', async () => {
    // Not the day before yesterday: midnight may be near.
    const days = [4, 3, 1].map(dayAgo)
    for (const day of days) await database.rows('SELECT pawl.create_day($1)', [day])
    expect(await stillThere(days)).toEqual(days)
    await run('drop old days')
    expect(await stillThere(days)).toEqual(days.slice(2))
  })
})

test('every SQL block of the page is run here', () => {
  expect([...blocks.keys()]).toEqual([
    'partition the keys',
    'functions to create days',
    'create the next days',
    'function to drop a day',
    'procedure to drop old days',
    'drop old days',
  ])
})
