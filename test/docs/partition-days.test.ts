import { randomUUID } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import { insertExpired, note } from '../support/expired-keys.js'
import { createEngine } from '../support/rides.js'
import { waitingForLock } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'
import { block, blocks, createFunctions, partitionOf, uuid7 } from './partition-page.js'

const DAY_MS = 24 * 3_600_000

const database = await TestDatabase.createNew()
await database.rows(block('partition the keys'))
await createFunctions(database)
afterAll(() => database.drop())

const dropDay = (day: string) => database.rows('SELECT pawl.drop_day($1)', [day])
const exists = async (name: string) => {
  const [row] = await database.rows<{ found: boolean }>(
    `SELECT to_regclass('pawl.${name}') IS NOT NULL AS found`,
  )
  return row?.found
}

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
    expect(await partitionOf(database, key)).toBe(partition)
    await dropDay(day)
    expect(await exists(partition)).toBe(false)
    const engine = createEngine({ pool: database.pool(), pipelines: [note], schema: database.schema })
    const request = { scope: `day ${day}`, key, input: null }
    expect((await engine.execute(note, request)).type).toBe('completed')
    expect(await partitionOf(database, key)).toBe('idempotency_keys_default')
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

  test('takes three index probes to decide, however many keys there are', async () => {
    const { id, partition } = await dayWithKey()
    await database.rows(
      `INSERT INTO pawl.${partition}
         (id, scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder, created_at,
          status, recovery_point, response_status, response_headers, response_body, expires_at)
       SELECT gen_random_uuid(), k.scope, k.key || n, k.pipeline, k.version, k.definition_hash, k.fingerprint,
              k.fingerprint_version, k.input, k.holder, k.created_at, k.status, k.recovery_point, k.response_status,
              k.response_headers, k.response_body, k.expires_at
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

  test('returns false for a day that does not exist, also where another session dropped it meanwhile', async () => {
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

/** Creates four days of a year, oldest first, each with one finished key that has expired. */
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

/** Runs the procedure as psql would, and returns its warnings. */
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
  test('turns a day that is refused into a warning, drops the others, and tries that one again the next time', async () => {
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

  test('turns a day whose lock it does not get into a warning', async () => {
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

  test('drops each day in its own transaction', async () => {
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

  test('drops what is three days old, and nothing else, by the last block of the page', async () => {
    // Not the day before yesterday: midnight may be near.
    const days = [4, 3, 1].map(dayAgo)
    for (const day of days) await database.rows('SELECT pawl.create_day($1)', [day])
    expect(await stillThere(days)).toEqual(days)
    await database.rows(block('drop old days'))
    expect(await stillThere(days)).toEqual(days.slice(2))
  })
})

test('the tests run every SQL block of the page', () => {
  expect([...blocks.keys()]).toEqual([
    'partition the keys',
    'functions to create days',
    'create the next days',
    'function to drop a day',
    'procedure to drop old days',
    'drop old days',
  ])
})
