import { randomUUID } from 'node:crypto'
import { createOperator } from '@pawl/core'
import { afterAll, afterEach, beforeAll, beforeEach, expect, inject, onTestFinished, test } from 'vitest'
import { RecordingProxy } from '../support/recording-proxy.js'
import { seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let proxy: RecordingProxy

beforeAll(async () => {
  proxy = await RecordingProxy.start(inject('databaseUrl'))
})
afterAll(() => proxy.close())

beforeEach(async () => {
  database = await TestDatabase.create()
  // What tests before this one have sent is theirs.
  counted()
})
afterEach(() => database.drop())

/** An operator of a process of its own. */
function operator(options: string = '') {
  const pool = database.pool({ connectionString: proxy.url, application_name: APPLICATION, options })
  return createOperator({ pool, schema: database.schema })
}

const APPLICATION = 'reading'

/** How often somebody has counted since this was last asked. */
const counted = (): number => proxy.take(APPLICATION).toString().split('AS first_due').length - 1

const MINUTE_MS = 60_000

test('of a database is what its tables have', async () => {
  await seedKey(database, { key: 'k1', status: 'stuck' })
  await seedKey(database, { key: 'k2', status: 'finished', expiresIn: '-1 hour' })
  await seedKey(database, { key: 'k3', status: 'finished', expiresIn: '1 hour' })
  const reading = await operator().reading()
  expect(reading).toMatchObject({
    unfinished: [{ stuck: 1, held: 0, unattended: 0, backingOff: 0 }],
    isPartial: false,
    stuckBy: [{ count: 1 }],
    oldestUnattendedMs: null,
    finished: { count: 2 },
    expired: { count: 1 },
    jobs: { waiting: { count: 0 }, dead: { count: 0 }, oldestDueMs: null },
  })
  expect(reading?.oldestExpiredMs).toBeGreaterThanOrEqual(3_600_000)
  expect(reading?.oldestExpiredMs).toBeLessThan(3_700_000)
  const keys = reading?.tables.find(({ table }) => table === 'idempotency_keys')
  expect(keys?.bytes).toBeGreaterThan(0)
})

test('is read by one process of many in each interval, and the others get what it has read', async () => {
  const operators = Array.from({ length: 4 }, () => operator())
  const read = () => Promise.all(operators.map((each) => each.reading({ everyMs: MINUTE_MS })))
  const known = await operators[0]?.reading({ everyMs: MINUTE_MS })
  for (let times = 0; times < 3; times++) expect(await read()).toEqual([known, known, known, known])
  expect(counted()).toBe(1)

  // The interval is over, and all of them find that out at once: none gets its turn before all of them want it.
  await database.rows(`UPDATE pawl.readings SET taken_at = taken_at - interval '61 s'`)
  await seedKey(database, { key: 'k1', status: 'stuck' })
  const other = await database.pool().connect()
  await other.query(`BEGIN; SELECT FROM "${database.schema}".readings FOR UPDATE`)
  const reading = read()
  await expect
    .poll(
      () =>
        database.rows(
          `SELECT FROM pg_stat_activity WHERE application_name = '${APPLICATION}' AND wait_event_type = 'Lock'`,
        ),
      { timeout: 10_000 },
    )
    .toHaveLength(4)
  await other.query('ROLLBACK')
  other.release()
  await reading
  for (const each of await read()) expect(each).toMatchObject({ stuckBy: [{ count: 1 }] })
  expect(counted()).toBe(1)
})

test('is not known yet while another process reads for the first time', async () => {
  await database.rows('INSERT INTO pawl.readings (id, taken_at) VALUES (1, clock_timestamp())')
  expect(await operator().reading({ everyMs: MINUTE_MS })).toBeNull()
})

test('of a process that may only read is its own, as often as it is asked to be', async () => {
  const role = `viewer_${randomUUID().replaceAll('-', '').slice(0, 12)}`
  await database.rows(`CREATE ROLE ${role}; GRANT USAGE ON SCHEMA ${database.schema} TO ${role};
    GRANT SELECT ON ALL TABLES IN SCHEMA ${database.schema} TO ${role}`)
  onTestFinished(async () => void (await database.admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)))
  for (const options of [`-c role=${role}`, '-c default_transaction_read_only=on']) {
    const viewer = operator(options)
    for (let times = 0; times < 3; times++)
      expect(await viewer.reading({ everyMs: MINUTE_MS })).toMatchObject({ stuckBy: [] })
    expect(counted()).toBe(1)
  }
  expect(await database.rows('SELECT FROM pawl.readings')).toEqual([])
})

test.each([[{ everyMs: 1 }], [{ everyMs: '1 s' }], [{ every: 1 }]])('refuses %j', async (options) => {
  await expect(operator().reading(options as never)).rejects.toMatchObject({
    code: 'PAWL_INVALID_OPTION',
  })
})
