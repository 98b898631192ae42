import { createOperator, type Finding, respond } from '@pawl/core'
import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { judgeBloat } from '../../packages/core/src/operate/judge-schema.js'
import {
  judgeClock,
  judgeDurability,
  judgeIsolation,
  judgePool,
  judgeTimeouts,
} from '../../packages/core/src/operate/judge-server.js'
import { judgeUnattended, judgeJobs } from '../../packages/core/src/operate/judge-work.js'
import { tablesIn } from '../../packages/core/src/storage/tables.js'
import { pipeline } from '../support/rides.js'
import { seedJob, seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
beforeEach(async () => {
  database = await TestDatabase.createPlain()
})
afterEach(() => database.drop())

const operator = (pool: pg.Pool = database.pool(), schema = database.schema) =>
  createOperator({ pool, schema })

/** What was found under one name. */
const named = (findings: readonly Finding[], check: string) => findings.filter((each) => each.check === check)

/** Asks the doctor, as its pool's sessions see the server. */
const find = async (check: string, config?: pg.PoolConfig) =>
  named(await operator(database.pool(config)).doctor(), check)

const CHECKS = [
  'schema',
  'server',
  'path',
  'clock',
  'durability',
  'isolation',
  'pool',
  'timeouts',
  'indexes',
  'versions',
  'unattended',
  'jobs',
  'stuck',
  'references',
  'bloat',
]

test('a fresh database is in good health: each check has a finding, and none a remedy', async () => {
  // A pool of one has all the connections that it may take, however busy the server is with other tests.
  const findings = await operator(database.pool({ max: 1 })).doctor()
  expect(findings.map(({ check }) => check)).toEqual(CHECKS)
  // The tests' own server runs without fsync.
  const others = findings.filter(({ check }) => check !== 'durability')
  expect(others.filter(({ level, remedy }) => level !== 'ok' || remedy !== null)).toEqual([])
  expect(findings.every(({ detail }) => detail.length > 10)).toBe(true)
})

describe('schema', () => {
  test('that was never migrated is one finding, besides what can be said about the server', async () => {
    const findings = await operator(database.pool(), `${database.schema}_none`).doctor()
    expect(findings.map(({ check }) => check)).toEqual(CHECKS.slice(0, 8))
    expect(findings[0]).toMatchObject({
      level: 'error',
      remedy: `Run migrate(pool, { schema: '${database.schema}_none' }).`,
    })
  })

  test.each([
    [
      'behind',
      'DELETE FROM pawl.migrations WHERE version = (SELECT max(version) FROM pawl.migrations)',
      /migrate/,
    ],
    ['ahead', 'INSERT INTO pawl.migrations SELECT max(version) + 1 FROM pawl.migrations', /Update/],
    ['damaged', 'ALTER TABLE pawl.staged_jobs DROP COLUMN dead_at', /migrationSql/],
  ])('%s', async (_how, damage, remedy) => {
    await database.rows(damage)
    const [finding] = await find('schema')
    expect(finding).toMatchObject({ level: 'error', remedy: expect.stringMatching(remedy) as string })
  })
})

describe('indexes', () => {
  test('are looked for if a migration creates them', async () => {
    const rows = await database.rows<{ name: string }>(
      `SELECT indexname AS name FROM pg_indexes WHERE schemaname = $1 AND tablename <> 'migrations'`,
      [database.schema],
    )
    const [{ detail } = { detail: '' }] = await find('indexes')
    expect(detail).toBe(`All ${rows.length} indexes are there and valid.`)
  })

  test('that are missing or invalid are reported', async () => {
    await database.rows('DROP INDEX pawl.effects_by_time')
    await database.rows(
      `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'pawl.idempotency_keys_running'::regclass`,
    )
    expect(await find('indexes')).toMatchObject([
      { level: 'error', detail: expect.stringContaining('Missing: effects_by_time') as string },
      { level: 'error', detail: expect.stringContaining('Invalid: idempotency_keys_running') as string },
    ])
  })
})

/** A setting that a pool applies to its sessions. */
const option = (setting: string) => ({ options: `-c ${setting}` })

describe('the server, as the pool sees it', () => {
  test('loses committed phases with synchronous_commit off', async () => {
    expect(await find('durability', option('synchronous_commit=off'))).toContainEqual(
      expect.objectContaining({
        level: 'error',
        detail: expect.stringContaining('synchronous_commit') as string,
      }),
    )
    const on = await find('durability', option('synchronous_commit=on'))
    expect(on.filter(({ detail }) => detail.startsWith('synchronous_commit'))).toEqual([])
  })

  test('takes no writes by default', async () => {
    expect(await find('isolation', option('default_transaction_read_only=on'))).toMatchObject([
      { level: 'error', detail: expect.stringContaining('default_transaction_read_only') as string },
    ])
    expect(judgeIsolation({ default_transaction_isolation: 'read committed' }, true)).toMatchObject([
      { level: 'error', remedy: 'Connect to the primary.' },
    ])
  })

  test('has a default isolation above READ COMMITTED', async () => {
    expect(await find('isolation', option('default_transaction_isolation=serializable'))).toMatchObject([
      { level: 'warning', detail: expect.stringContaining('serializable') as string },
    ])
  })

  test('has a time-out that ends healthy statements', async () => {
    expect(await find('timeouts', option('statement_timeout=900'))).toMatchObject([
      { level: 'warning', detail: expect.stringContaining('statement_timeout is 900 ms') as string },
    ])
    expect(await find('timeouts', option('statement_timeout=30000'))).toMatchObject([{ level: 'ok' }])
    expect(judgeTimeouts({ transaction_timeout: '100' })).toMatchObject([{ level: 'warning' }])
  })

  test('has fewer connections left than the pool may take', async () => {
    expect(await find('pool', { max: 100_000 })).toMatchObject([{ level: 'warning' }])
    const server = { nowMs: 0, inRecovery: false, connections: 90, connectionsHere: 5 }
    const settings = {
      max_connections: '100',
      superuser_reserved_connections: '3',
      reserved_connections: '1',
    }
    expect(judgePool({ ...server, settings }, { max: 10, open: 4 })).toMatchObject({ level: 'ok' })
    expect(judgePool({ ...server, settings }, { max: 10, open: 3 })).toMatchObject({ level: 'warning' })
  })

  test("clocks that differ are only a note, since leases depend on the database's", () => {
    expect(judgeClock(1_000_000, 999_999, 1_000_001).detail).toMatch(/agree/)
    expect(judgeClock(1_000_000, 4_600_000, 4_600_010)).toMatchObject({
      level: 'ok',
      detail: expect.stringContaining('60 min behind') as string,
    })
    expect(judgeClock(4_600_000, 999_990, 1_000_000).detail).toMatch(/60 min ahead/)
  })
})

const versionOf = (number: number, upgradesFrom: { version: number }[] = []) =>
  pipeline({ name: 'seeded', version: number, upgradesFrom }).finish(() => respond(204))

const judge = async (...pipelines: ReturnType<typeof versionOf>[]) =>
  named(await operator().doctor({ pipelines }), 'versions')

describe('versions', () => {
  beforeEach(async () => {
    await seedKey(database, { definitionHash: versionOf(1).definitionHash })
    await seedKey(database, { pipeline: 'atomic.post.rides', kind: 'atomic' })
    await seedKey(database, { version: 9, status: 'finished' })
  })

  test('in flight can be run under their own version or by an upgrade', async () => {
    expect(await judge(versionOf(1))).toMatchObject([{ level: 'ok' }])
    expect(await judge(versionOf(2, [{ version: 1 }]))).toMatchObject([{ level: 'ok' }])
  })

  test('that none of the pipelines can run are reported', async () => {
    expect(await judge(versionOf(2))).toMatchObject([
      { level: 'error', detail: expect.stringContaining(`'seeded' version 1`) as string },
    ])
    expect(await judge()).toHaveLength(1)
  })

  test('that are registered with another definition are reported', async () => {
    await seedKey(database, { status: 'stuck', definitionHash: 'ffffffffffffffff' })
    expect(await judge(versionOf(1))).toMatchObject([
      { level: 'error', detail: expect.stringMatching(/ffffffffffffffff.*another definition/) as string },
    ])
  })

  test('in flight are listed where no pipelines are given', async () => {
    const [finding, ...more] = await find('versions')
    expect(more).toEqual([])
    expect(finding).toMatchObject({ level: 'ok', remedy: null })
    expect(finding?.detail).toBe(`In flight: 'seeded' version 1 (${versionOf(1).definitionHash}): 1.`)
  })

  test('are not judged with unknown options, or something that is not a pipeline', async () => {
    await expect(operator().doctor({ pipeline: [] } as never)).rejects.toThrow(/'pipeline'/)
    await expect(operator().doctor({ pipelines: {} as never })).rejects.toThrow(/a list of pipelines/)
    await expect(operator().doctor({ pipelines: [{}] as never })).rejects.toThrow(/not a pipeline/)
  })
})

describe('work that waits', () => {
  test('is reported for keys that have been due for minutes: no completer is running', async () => {
    await seedKey(database, { leaseIn: '-4 min', createdAgo: '1 h' })
    await seedKey(database, { leaseIn: '1 min', createdAgo: '1 h' })
    await seedKey(database, { runIn: '1 min', createdAgo: '1 h' })
    await seedKey(database, {
      pipeline: 'atomic.post.rides',
      kind: 'atomic',
      leaseIn: '-10 min',
      createdAgo: '1 h',
    })
    expect(await find('unattended')).toMatchObject([{ level: 'ok' }])
    await seedKey(database, { leaseIn: '-6 min', createdAgo: '1 h' })
    await seedKey(database, { createdAgo: '1 h' })
    expect(await find('unattended')).toMatchObject([
      { level: 'warning', detail: expect.stringMatching(/^2 keys .* 60 min/) as string },
    ])
  })

  test('is reported for jobs that have been due for minutes, and for dead ones: no relay is running', async () => {
    await seedJob(database, { dueAgo: '4 min' })
    expect(await find('jobs')).toMatchObject([{ level: 'ok' }])
    await seedJob(database, { dueAgo: '6 min' })
    await seedJob(database, { deadAgo: '1 h' })
    expect(await find('jobs')).toMatchObject([
      { level: 'warning', detail: expect.stringContaining('no relay') as string },
      { level: 'warning', detail: 'Staged jobs that were given up: 1.' },
    ])
  })

  test('is reported for stuck keys, by reason', async () => {
    await seedKey(database, { status: 'stuck', stuckReason: 'unknown_outcome' })
    await seedKey(database, { status: 'stuck', stuckReason: 'too_old' })
    await seedKey(database, { status: 'stuck', stuckReason: 'too_old' })
    expect(await find('stuck')).toMatchObject([
      { level: 'warning', detail: 'Stuck: too_old 2, unknown_outcome 1.' },
    ])
  })
})

/** A table of the application that refers to the keys. */
const makeOrders = (action: string, index = '') =>
  database.rows(`
    CREATE TABLE ${database.businessSchema}.orders (
      id int, key_id uuid REFERENCES pawl.idempotency_keys (id) ${action}); ${index}`)

describe('references', () => {
  test('are fine where they are indexed and do not prevent deletion', async () => {
    await makeOrders('ON DELETE SET NULL', `CREATE INDEX ON ${database.businessSchema}.orders (key_id)`)
    expect(await find('references')).toMatchObject([{ level: 'ok' }])
  })

  test('are fine with a partial index that has every row that refers to a key', async () => {
    const index = `CREATE INDEX ON ${database.businessSchema}.orders (key_id) WHERE key_id IS NOT NULL`
    await makeOrders('ON DELETE SET NULL', index)
    expect(await find('references')).toMatchObject([{ level: 'ok' }])
  })

  test.each([
    ['no index', 'ON DELETE SET NULL', '', /has no index/],
    [
      'an index on something else first',
      'ON DELETE CASCADE',
      'CREATE INDEX ON orders (id, key_id)',
      /has no index/,
    ],
    ['a partial index', 'ON DELETE CASCADE', 'CREATE INDEX ON orders (key_id) WHERE id > 5', /has no index/],
    ['NO ACTION', '', 'CREATE INDEX ON orders (key_id)', /keeps keys from being deleted/],
    ['RESTRICT', 'ON DELETE RESTRICT', 'CREATE INDEX ON orders (key_id)', /keeps keys from being deleted/],
  ])('%s', async (_how, action, index, detail) => {
    await makeOrders(action, index)
    expect(await find('references')).toMatchObject([
      { level: 'warning', detail: expect.stringMatching(detail) as string },
    ])
  })
})

test('more dead rows than live ones are reported', () => {
  const tables = tablesIn('pawl', 'here')
  const care = { liveRows: 20_000, deadRows: 20_001, partitions: null, vacuumedMs: null }
  expect(judgeBloat(care, tables)).toMatchObject({ level: 'warning' })
  expect(judgeBloat({ ...care, deadRows: 20_000 }, tables)).toMatchObject({ level: 'ok' })
  expect(judgeBloat({ ...care, liveRows: 0, deadRows: 9_999 }, tables)).toMatchObject({ level: 'ok' })
})

test('for a server without fsync, what to do depends on whether it has crashed since', () => {
  expect(judgeDurability({ fsync: 'off' })[0]?.remedy).toBe(
    'Set fsync = on; if the server has crashed since it was off, restore from a backup.',
  )
})

/** What the doctor says about jobs that wait. */
const jobs = (waiting: number, oldestDueMs: number | null = null) =>
  judgeJobs({ waiting, dead: 0, oldestDueMs })[0]?.detail

describe('singular and plural are right for', () => {
  const MINUTE_MS = 60_000
  const tables = tablesIn('pawl', 'here')
  test('keys', async () => {
    expect(judgeUnattended({ count: 1, sinceMs: 6 * MINUTE_MS }).detail).toBe(
      '1 key has been due for 6 min: no completer seems to be running.',
    )
    expect(judgeUnattended({ count: 2, sinceMs: 6 * MINUTE_MS }).detail).toBe(
      '2 keys have been due for more than 5 min, one of them for 6 min: no completer seems to be running.',
    )
    expect(judgeUnattended({ count: 100_000, sinceMs: 6 * MINUTE_MS }).detail).toMatch(
      /^100000 or more keys have /,
    )
    await seedKey(database)
    expect((await judge(versionOf(2)))[0]?.detail).toMatch(/^1 unfinished key of 'seeded' version 1 /)
    await seedKey(database)
    expect((await judge(versionOf(2)))[0]?.detail).toMatch(/^2 unfinished keys of 'seeded' version 1 /)
  })

  test('jobs', () => {
    expect(jobs(0)).toBe('No job is waiting, and none was given up.')
    expect(jobs(1)).toBe('1 job is waiting, but not for long, and none was given up.')
    expect(jobs(2)).toBe('2 jobs are waiting, but not for long, and none was given up.')
    expect(jobs(1, 6 * MINUTE_MS)).toMatch(/^1 job is waiting, due for 6 min: /)
    expect(jobs(2, 6 * MINUTE_MS)).toMatch(/^2 jobs are waiting, one of them due for 6 min: /)
  })

  test('rows, partitions and foreign keys', async () => {
    const care = { liveRows: 5, deadRows: 1, partitions: 1, vacuumedMs: null }
    expect(judgeBloat(care, tables).detail).toContain('about 1 dead row and 5 live in 1 partition. ')
    expect(judgeBloat({ ...care, partitions: null }, tables).detail).toContain(
      'about 1 dead row and 5 live. ',
    )
    await makeOrders('ON DELETE SET NULL', `CREATE INDEX ON ${database.businessSchema}.orders (key_id)`)
    expect((await find('references'))[0]?.detail).toBe(
      '1 foreign key to the keys, and it does not prevent their deletion.',
    )
  })
})
