import { afterAll, beforeAll, expect, test } from 'vitest'
import type { RequestList } from '../../packages/console/src/api.js'
import { IS_DEEP } from '../support/amounts.js'
import { RecordingProxy } from '../support/recording-proxy.js'
import { TestDatabase } from '../support/test-database.js'
import type { ConsoleClient } from './console-client.js'
import { consoleOn, type TestConsole } from './console-on.js'
import { type Sent, sentStatements } from './sent-statements.js'

/** What the console sends, on tables of the size at which an index begins to matter. */

const FINISHED = 60_000
const RUNNING = 2_000
const STUCK = 400

let database: TestDatabase
let console: TestConsole
let anna: ConsoleClient
let proxy: RecordingProxy

/** One connection each, so that the messages of two are not mixed. */
const [READS, WRITES] = ['reads-of-console', 'writes-of-console']
const recorded = (application: string) =>
  database.pool({ connectionString: proxy.url, application_name: application, max: 1 })

/** What the console has sent by one of its pools since the last time, each text once. */
function taken(application: string): Sent[] {
  const about = sentStatements(proxy.take(application)).filter(({ text }) =>
    text.includes(`"${database.schema}"`),
  )
  return [...new Map(about.map((each) => [each.text, each])).values()]
}

beforeAll(async () => {
  database = await TestDatabase.create()
  const columns = `(scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder, status, stuck_reason,
    recovery_point, created_at, updated_at, expires_at, lease_until, response_status, response_headers, response_body)`
  const some = (status: string, count: number): string =>
    `INSERT INTO pawl.idempotency_keys ${columns}
     SELECT 'scope-' || n % 500, '${status}-' || n, 'pipeline-' || n % 4, 1, 'x', sha256(''), 1, '{}', gen_random_uuid(), '${status}',
            ${status === 'stuck' ? `(ARRAY['unknown_outcome', 'attempts_exhausted', 'too_old'])[1 + n % 3]` : 'NULL'},
            ${status === 'finished' ? `'finished'` : `'point-' || n % 5`},
            now() - n * interval '1 s', now() - n * interval '1 s',
            ${status === 'finished' ? `now() + interval '1 day' - n * interval '1 s', NULL, 204, '{}', ''` : `NULL, now() + (n % 2 * 2 - 1) * interval '1 h', NULL, NULL, NULL`}
       FROM generate_series(1, ${count}) AS n`
  await database.rows(some('finished', FINISHED))
  await database.rows(some('running', RUNNING))
  await database.rows(some('stuck', STUCK))
  await database.rows(
    `INSERT INTO pawl.effects (key_id, scope, key, pipeline, version, fence, phase, effect, provider_key, reference, created_at)
     SELECT gen_random_uuid(), 'scope-' || n % 500, 'finished-' || n, 'pipeline-' || n % 4, 1, 1, 'paid', 'paid', 'pk-' || n, 'ch-' || n, now() - n * interval '1 min'
       FROM generate_series(1, ${FINISHED}) AS n`,
  )
  await database.rows(
    `INSERT INTO pawl.interventions (key_id, scope, key, action, actor, reason, detail, created_at)
     SELECT gen_random_uuid(), 'scope-' || n % 500, 'k', 'unstick', 'anna', 'why', 'null', now() - n * interval '1 min' FROM generate_series(1, 20000) AS n`,
  )
  await database.rows(
    `INSERT INTO pawl.staged_jobs (id, scope, seq, name, payload, key_id, attempts, run_after, dead_at)
     SELECT gen_random_uuid(), 'scope-' || n % 500, n, 'mail', '{}', gen_random_uuid(), 1, now(), CASE WHEN n % 50 = 0 THEN now() END FROM generate_series(1, 20000) AS n`,
  )
  for (const table of ['idempotency_keys', 'effects', 'interventions', 'staged_jobs'])
    await database.admin.query(`VACUUM ANALYZE ${database.schema}.${table}`)
  proxy = await RecordingProxy.start(database.url)
  console = await consoleOn(database, { pool: recorded(WRITES), readPool: recorded(READS) })
  anna = console.as('anna')
}, 120_000)
afterAll(async () => {
  await console.close()
  await database.drop()
  await proxy.close()
})

async function idOf(key: string): Promise<{ readonly id: string; readonly revision: number }> {
  const [row] = await database.rows<{ id: string; revision: number }>(
    'SELECT id, revision::int FROM pawl.idempotency_keys WHERE key = $1',
    [key],
  )
  return row ?? { id: '', revision: 0 }
}

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly Plans?: readonly Plan[]
}
const flatten = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(flatten)]

interface Executed {
  /** Tables that were read from one end to the other. */
  readonly whole: readonly string[]
  readonly locks: readonly string[]
}

/** Executes a statement again, or only plans it as those that write, and says what it has read and locked. */
async function executed({ text, values }: Sent, how: 'ANALYZE' | 'COSTS'): Promise<Executed> {
  const client = await database.admin.connect()
  try {
    await client.query(`BEGIN; SET LOCAL search_path = ${database.schema}`)
    const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
      `EXPLAIN (${how}, FORMAT JSON) ${text}`,
      [...values],
    )
    const locked = await client.query<{ mode: string; name: string }>(
      `SELECT DISTINCT l.mode, c.relname AS name FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
        WHERE l.pid = pg_backend_pid() AND c.relnamespace = $1::regnamespace`,
      [database.schema],
    )
    return {
      whole: rows
        .flatMap((row) => flatten(row['QUERY PLAN'][0].Plan))
        .filter((node) => node['Node Type'] === 'Seq Scan')
        .map((node) => node['Relation Name'] ?? ''),
      locks: locked.rows.map(({ mode }) => mode),
    }
  } finally {
    await client.query('ROLLBACK')
    client.release()
  }
}

/** Tables that grow with the requests. */
const LARGE = ['idempotency_keys', 'effects', 'interventions', 'staged_jobs']

test('every look goes by an index, and locks nothing that a request could wait for', async () => {
  const { id } = await idOf('finished-30000')
  const stuck = await idOf('stuck-7')
  const first = await anna.get<RequestList>('api/requests?limit=100')
  for (const path of [
    'flow',
    'inbox',
    'dead',
    'dead?name=mail',
    'duplicates',
    'interventions',
    'interventions?actor=anna&action=unstick',
    'interventions.csv?from=2000-01-01',
    'reconciliation',
    `requests?limit=100&after=${first.body.next}`,
    'requests?status=running',
    'requests?status=unattended',
    'requests?status=stuck&stuckReason=unknown_outcome',
    'requests?status=finished',
    'requests?status=finished&pipeline=pipeline-1&olderThanMs=1000',
    `requests/${id}`,
    `requests/${stuck.id}`,
    'find?q=finished-30000',
    'find?q=scope-7',
    'find?q=scope-7/finished-7',
    'find?q=ch-50',
    'find?q=nothing',
    `find?q=${id}`,
  ])
    expect((await anna.get(`api/${path}`)).status, path).toBe(200)
  for (const action of ['retry', 'not-executed', 'answer', 'revoke', 'erase'])
    await anna.post(`api/requests/${stuck.id}/preview/${action}`, action === 'answer' ? { status: 410 } : {})
  const statements = taken(READS)
  expect(statements.length).toBeGreaterThan(20)
  for (const statement of statements) {
    const { whole, locks } = await executed(statement, 'ANALYZE')
    expect(
      whole.filter((name) => LARGE.includes(name)),
      statement.text,
    ).toEqual([])
    expect(
      locks.filter((lock) => lock !== 'AccessShareLock'),
      statement.text,
    ).toEqual([])
  }
})

test('every change goes by an index, and locks its own rows only', async () => {
  for (const [key, action, body] of [
    ['stuck-1', 'retry', {}],
    ['stuck-2', 'answer', { status: 410 }],
    ['running-1', 'revoke', {}],
    ['finished-1', 'extend', { until: new Date(Date.now() + 20 * 86_400_000).toISOString() }],
    ['finished-2', 'forget', { effectsUndone: true }],
    ['finished-3', 'erase', { recentEffects: true, undeliveredJobs: true }],
    ['finished-4', 'reveal', {}],
  ] as const) {
    const { id } = await idOf(key)
    const { status } = await anna.post(`api/requests/${id}/${action}`, { ...body, reason: 'to see' })
    expect(status, `${key} ${action}`).toBe(200)
  }
  await anna.post('api/dead/requeue', { name: 'mail', reason: 'to see' })
  const statements = taken(WRITES)
  expect(statements.length).toBeGreaterThan(10)
  for (const statement of statements) {
    const { whole, locks } = await executed(statement, 'COSTS')
    expect(
      whole.filter((name) => LARGE.includes(name)),
      statement.text,
    ).toEqual([])
    for (const lock of locks)
      expect(['AccessShareLock', 'RowShareLock', 'RowExclusiveLock'], statement.text).toContain(lock)
  }
})

const median = (of: readonly number[]): number => of.toSorted((a, b) => a - b)[of.length >> 1] ?? 0

/** How many pages are measured at either end, and what the machine may do meanwhile. */
const MEASURED = 15
const SLACK_MS = 50

/** `npm run test:deep` goes through a hundred thousand. */
const MANY = IS_DEEP ? 100_000 : 20_000

test('very many keys are gone through page by page, each once, the last page as fast as the first', async () => {
  await database.rows(
    `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version, input, holder, status, recovery_point, created_at)
     SELECT 'many', 'many-' || n, 'many', 1 + n % 3, 'x', sha256(''), 1, '{}', gen_random_uuid(), 'running', 'started', timestamptz '2020-01-01' + n / 10 * interval '1 ms'
       FROM generate_series(1, ${MANY}) AS n`,
  )
  await database.admin.query(`ANALYZE ${database.schema}.idempotency_keys`)
  const seen = new Set<string>()
  const times: number[] = []
  for (let after = ''; ;) {
    const began = performance.now()
    const { status, body } = await anna.get<RequestList>(`api/requests?pipeline=many&limit=500${after}`)
    times.push(performance.now() - began)
    expect(status).toBe(200)
    for (const { key } of body.rows) seen.add(key)
    expect(seen.size).toBe(times.length * 500)
    if (body.next === null) break
    after = `&after=${body.next}`
  }
  expect(seen.size).toBe(MANY)
  expect(median(times.slice(-MEASURED))).toBeLessThan(3 * median(times.slice(0, MEASURED)) + SLACK_MS)
  expect((await anna.get('api/flow')).status).toBe(200)
}, 120_000)
