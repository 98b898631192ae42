import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { afterAll, describe, expect, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import { partitionsFor, type Reading, readingOf, type Values } from './partition-scans.js'

const PARTITIONS = 4
const database = await TestDatabase.createPartitioned(PARTITIONS)
afterAll(() => database.drop())

const EXPIRED = 3_000
const FINISHED = 19_800
const RUNNING = 160
const STUCK = 40
const WAITING_JOBS = 8_000
const DEAD_JOBS = 2_000
const EFFECTS = 10_000

// As in production, most keys are finished. Unfinished ones are of three pipelines, or of an atomic handler, in two versions.
await database.rows(
  `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, kind, version, definition_hash, fingerprint, fingerprint_version,
     input, holder, status, recovery_point, stuck_reason, response_status, response_headers, response_body, created_at, expires_at)
   SELECT 'scope-' || n % 500, n::text, 'p-' || n % 4, CASE n % 4 WHEN 3 THEN 'atomic' ELSE 'pipeline' END, 1 + n / 4 % 2, 'hash',
          sha256(''), 1, '{}', gen_random_uuid(), s.status, CASE s.status WHEN 'finished' THEN 'finished' ELSE 'started' END,
          CASE s.status WHEN 'stuck' THEN 'too_old' END, CASE s.status WHEN 'finished' THEN 204 END,
          CASE s.status WHEN 'finished' THEN '{}'::json END, CASE s.status WHEN 'finished' THEN ''::bytea END,
          clock_timestamp() - interval '1 day',
          CASE s.status WHEN 'finished' THEN clock_timestamp() + (n - ${EXPIRED}) * interval '1 min' END
     FROM generate_series(1, ${FINISHED + RUNNING + STUCK}) AS n, LATERAL (
       SELECT CASE WHEN n > ${FINISHED + STUCK} THEN 'running' WHEN n > ${FINISHED} THEN 'stuck' ELSE 'finished' END AS status) AS s`,
)
await database.rows(
  `INSERT INTO pawl.staged_jobs (id, scope, seq, name, payload, key_id, dead_at)
   SELECT gen_random_uuid(), k.scope, n, 'mail', '{}', k.id, CASE WHEN n > ${WAITING_JOBS} THEN clock_timestamp() - interval '1 h' END
     FROM generate_series(1, ${WAITING_JOBS + DEAD_JOBS}) AS n JOIN pawl.idempotency_keys AS k ON k.key = n::text`,
)
await database.rows(
  `INSERT INTO pawl.effects (key_id, scope, key, pipeline, version, fence, phase, effect, provider_key, created_at)
   SELECT k.id, k.scope, k.key, 'p', 1, 1, 'x', 'x', 'x', timestamptz '2026-01-01Z' + n * interval '1 min'
     FROM generate_series(1, ${EFFECTS}) AS n JOIN pawl.idempotency_keys AS k ON k.key = n::text`,
)
for (const table of ['idempotency_keys', 'staged_jobs', 'effects'])
  await database.rows(`VACUUM ANALYZE pawl.${table}`)

const MANY = 100
/** How many jobs the relay reads. */
const READ = 500
const list = (values: readonly unknown[]): string => `{${values.join(',')}}`
const times = (count: number, value: unknown): string => list(Array.from({ length: count }, () => value))
const columnsOf = async (table: string, where: string, columns: readonly string[]): Promise<string[]> => {
  const rows = await database.rows<Record<string, unknown>>(
    `SELECT * FROM pawl.${table} WHERE ${where} LIMIT ${MANY}`,
  )
  expect(rows).not.toHaveLength(0)
  return columns.map((column) => list(rows.map((row) => row[column])))
}
const expiredKeys = await columnsOf('idempotency_keys', `key::integer < ${EXPIRED}`, ['scope', 'key'])
const runningKeys = await columnsOf('idempotency_keys', `status = 'running'`, [
  'scope',
  'key',
  'fence',
  'holder',
])
const waitingJobs = await columnsOf('staged_jobs', 'dead_at IS NULL', ['scope', 'key_id', 'seq'])
const [deadJobs = ''] = await columnsOf('staged_jobs', 'dead_at IS NOT NULL', ['id'])
const [one = { id: '', holder: '', scope: '', key: '' }] = await database.rows<
  Record<'id' | 'holder' | 'scope' | 'key', string>
>(`SELECT id, holder, scope, key FROM pawl.idempotency_keys WHERE status = 'stuck' LIMIT 1`)
const asRead = [one.scope, one.key, one.id, one.holder, 1, 1]
const because = [randomUUID(), 'anna', 'plans', '{}']
const anything: Values = [null, null, null, null, null, null, 'false', MANY, '-1000000000000000', '', '']
const versions = [list(['p-0', 'p-1']), list([1, 2]), times(2, 'hash')]
const tomorrow = Date.now() + 86_400_000

/** It looks at the first row of each partition, and then at the next of the one it came from. */
const firstOf = (count: number): number => count + PARTITIONS

/** What a statement may read at most; what is left out, it does not do at all. */
type Bound = Partial<Omit<Reading, 'wholePartitions'>>

/** Values for each statement that is not on the way of a request, and what it may read. */
const STATEMENTS: Readonly<Record<string, readonly [Values, Bound]>> = {
  // The completer. Each version is looked for by itself.
  find_unattended_keys: [[...versions, times(2, 60_000)], { passes: 2, rows: RUNNING }],
  find_unattended_by_scope: [
    ['', '-infinity', '00000000-0000-0000-0000-000000000000', 60_000],
    { passes: 1, rows: RUNNING + STUCK },
  ],
  forget_atomic_keys: [
    [list(['p-3', 'p-3']), list([1, 2]), times(2, 'hash'), times(2, 1), MANY, times(2, 60_000)],
    // Before PostgreSQL 18, EXPLAIN rounds the rows of each pass.
    { passes: 2, rows: firstOf(RUNNING / 4), lookUps: RUNNING / 4 },
  ],
  // The lease keeper, which locks, writes, and looks at each of its keys.
  renew_leases: [[...runningKeys, times(MANY, 60_000), times(MANY, 'started')], { lookUps: 3 * MANY }],
  // The reaper.
  reap_keys: [[MANY, null], { passes: 1, rows: firstOf(MANY), lookUps: MANY }],
  find_expired_keys: [[MANY, null], { passes: 1, rows: firstOf(MANY) }],
  reap_these_keys: [expiredKeys, { lookUps: 2 * MANY }],
  put_off_keys: [[...expiredKeys, 1, 2], { lookUps: 2 * MANY }],
  reap_effects: [[MANY, null, 1], { passes: 1, rows: firstOf(MANY), lookUps: 2 * MANY }],
  // The relay. For each job it looks for earlier ones of the same key.
  claim_jobs: [
    [randomUUID(), 60_000, null, MANY, 3, '{}', 10, 'true', '', 10],
    { passes: 1, rows: firstOf(READ), lookUps: 2 * firstOf(READ) + 2 * MANY },
  ],
  find_due_by_scope: [
    [randomUUID(), null, 3, '', '-infinity', '00000000-0000-0000-0000-000000000000', 0, '{}'],
    // Where to begin, and what there is.
    { passes: 2, rows: firstOf(1) + firstOf(READ), lookUps: firstOf(READ) },
  ],
  claim_these_jobs: [[...waitingJobs, randomUUID(), 60_000, null], { lookUps: 3 * MANY }],
  delete_jobs: [[...waitingJobs, randomUUID()], { lookUps: MANY }],
  return_jobs: [
    [...waitingJobs, times(MANY, 1), times(MANY, 'x'), times(MANY, 'false'), randomUUID(), times(MANY, 1)],
    { lookUps: MANY },
  ],
  // The operator: what there is.
  count_rows: [[], { passes: 1, rows: FINISHED + WAITING_JOBS + DEAD_JOBS }],
  count_unfinished: [[tomorrow], { passes: 1, rows: RUNNING + STUCK }],
  group_unfinished: [[null, null], { passes: 1, rows: RUNNING + STUCK }],
  group_stuck: [[], { passes: 1, rows: STUCK }],
  find_versions: [[], { passes: 1, rows: RUNNING + STUCK }],
  find_overdue: [[1], { passes: 1, rows: RUNNING }],
  find_retried: [[1], { passes: 1, rows: RUNNING }],
  has_keys_of: [['no such'], { passes: 1, rows: firstOf(10_000) }],
  // From each of eight versions to the next, and then to the keys of each.
  list_running: [anything, { passes: 1 + 8 + 8, rows: RUNNING + 9 * PARTITIONS }],
  list_stuck: [anything, { passes: 1 + 8 + 8, rows: STUCK + 9 * PARTITIONS }],
  list_finished: [anything, { passes: 1, rows: firstOf(MANY) }],
  find_finished_lately: [
    [list(['p-0', 'p-1', 'p-2', 'p-3']), 86_400_000, 100 * 86_400_000, MANY],
    { passes: 1, rows: FINISHED },
  ],
  find_unfinished_named: [['no such', MANY], { passes: 1, rows: RUNNING + STUCK }],
  find_finished_named: [['no such', MANY, MANY], { passes: 1, rows: firstOf(MANY) }],
  group_flow: [[MANY], { passes: 1, rows: RUNNING + STUCK }],
  find_effects_lately: [['no such', MANY, 40_000 * 86_400_000, MANY], { passes: 1, rows: firstOf(MANY) }],
  find_dead_jobs: [[null, MANY], { passes: 1, rows: firstOf(MANY) }],
  find_effects: [
    [0, '00000000-0000-0000-0000-000000000000', tomorrow * 1_000, MANY],
    { passes: 1, rows: firstOf(MANY) },
  ],
  // The operator: one key, by its name or by its id alone.
  find_key_by_id: [[one.id], { passes: 1, rows: 1 }],
  find_jobs_of_key: [[one.scope, one.id, MANY], { lookUps: 1 }],
  find_effects_of_key: [[one.scope, one.key, one.id, MANY], { lookUps: 1 }],
  unstick_key: [[...asRead, ...because, 1, null], { lookUps: 2 }],
  revoke_lease: [[...asRead, ...because], { lookUps: 2 }],
  // The last four are for a key whose bytes are counted.
  answer_key: [[...asRead, ...because, 410, '{}', '', 1, '[]', 1_000, 'p-0', 1, 1], { lookUps: 2 }],
  // The operator: jobs, and the key of each.
  requeue_dead_jobs: [
    ['anna', 'plans', '{}', tomorrow, null, MANY],
    { passes: 1, rows: firstOf(MANY), lookUps: 2 * MANY },
  ],
  // All dead ones may be read, while they are few.
  requeue_these_jobs: [['anna', 'plans', '{}', deadJobs], { passes: 1, rows: DEAD_JOBS, lookUps: 2 * MANY }],
}

/**
 * Each of these finds one row by scope and key, or by scope and id. `cost/plans-partitioned.test.ts` reads their plans for the values
 * of a request.
 */
const OF_REQUESTS = [
  'advance_key',
  'declare_call',
  'find_key',
  'find_own_key',
  'find_progress',
  'finish_key',
  'forget_key',
  'give_back_key',
  'insert_effect',
  'insert_key',
  'insert_staged_job',
  'keep_late_end',
  'mark_stuck',
  'mark_unheld_stuck',
  'raise_fence',
  'skip_phase',
  'take_over_key',
]

/** Each of these names one scope, and so one partition; `cost/plans.test.ts` and tests of what they do read the rest. */
const OF_ONE_SCOPE = [
  'count_unfinished_of_scope',
  'copy_erased_effect',
  'delete_erased_effects',
  'erase_jobs',
  'erase_keys',
  'extend_key',
  'find_effects_to_erase',
  'find_ids_of_key',
  'find_interventions_to_erase',
  'find_jobs_to_erase',
  'find_keys_to_erase',
  'find_last_effect',
  'find_standing_effects',
  'forget_finished_key',
  'has_scope',
]

/** Sent only where somebody has made an index for it. */
const BY_OWN_INDEXES = ['find_effects_indexed', 'find_keys_indexed']

// The page has every statement, as a test of its own checks.
const page = readFileSync(new URL('../../docs/statements.md', import.meta.url), 'utf8')
const texts = new Map<string, string[]>()
for (const section of page.split(/^### /m).slice(1)) {
  const sql = [...section.matchAll(/^```sql\n([^]*?)^```$/gm)].map(([, text = '']) => text)
  const ofDivided = sql.filter((text) => /"pawl"\."(?:idempotency_keys|effects|staged_jobs)"(?!')/.test(text))
  if (ofDivided.length > 0) texts.set(section.slice(0, section.indexOf('\n')), ofDivided)
}

/** Sent only where the tables are distributed, in the place of statements that are read here. */
const OVER_SERVERS = [
  'delete_effects',
  'find_dead_job_names',
  'find_due_jobs',
  'find_left_keys',
  'find_old_effects',
  'find_unattended_of_version',
  'forget_left_keys',
  'note_requeue',
  'requeue_named_jobs',
]

test('every statement about tables that are divided is read here, is of a request, or is for many servers', () => {
  const known = [
    ...Object.keys(STATEMENTS),
    ...OF_REQUESTS,
    ...OF_ONE_SCOPE,
    ...BY_OWN_INDEXES,
    ...OVER_SERVERS,
  ]
  expect([...texts.keys()].toSorted()).toEqual(known.toSorted())
})

test.each(OF_ONE_SCOPE)('%s names the scope wherever it reads a table that is divided', (name) => {
  for (const text of texts.get(name) ?? []) {
    const rows = /(?:FROM|UPDATE|JOIN) "pawl"\."(?:idempotency_keys|effects|staged_jobs)" AS (\w)/g
    for (const [, row] of text.matchAll(rows)) expect(text).toContain(`${row}.scope = $1`)
  }
})

/** How many values a statement takes. */
const parametersIn = (text: string): number =>
  Math.max(0, ...[...text.matchAll(/\$(\d+)/g)].map(([, number]) => Number(number)))

/** The scope, the key and the id of a row, where a statement asks for them. Which partition it is depends on nothing else. */
function namesIn(text: string): Values {
  const values: (string | null)[] = Array.from({ length: parametersIn(text) }, () => null)
  for (const [, name, number] of text.matchAll(/\b(scope|key|id) = \$(\d+)/g))
    values[Number(number) - 1] = one[name as 'scope' | 'key' | 'id']
  return values
}

// Those that insert alone read nothing, and name the scope of their row; `every-statement.test.ts` reads their texts.
test.each(OF_REQUESTS.filter((name) => !name.startsWith('insert_')))(
  '%s looks into one partition where it is kept prepared',
  async (name) => {
    for (const written of texts.get(name) ?? []) {
      const text = written.replaceAll('"pawl".', `"${database.schema}".`)
      expect(await partitionsFor(database, { text, values: namesIn(written) })).toHaveLength(1)
    }
  },
)

const newKey: Values = [
  randomUUID(),
  one.scope,
  'a new key',
  'p-0',
  'pipeline',
  1,
  'hash',
  '\\x00',
  1,
  '{}',
  30_000,
  1,
  randomUUID(),
  '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
  // Whether it may run again; unfinished keys and a rate, of the scope and of the pipeline; bytes of both, and of the key; the part that counts it.
  'false',
  5,
  10,
  1_000,
  5,
  10,
  1_000,
  100_000,
  100_000,
  2_000,
  1,
]
/** By how many values they take: unfinished keys alone, with a bucket, with bytes as well, and everything that can be limited. */
const WITH_BYTES = 21
const EVERYTHING = 25
const LIMITED = [16, 18, WITH_BYTES, EVERYTHING]
const valuesFor = (count: number): Values =>
  count === WITH_BYTES ? [...newKey.slice(0, 18), 100_000, 2_000, 1] : newKey.slice(0, count)

describe.each(['custom', 'generic'] as const)('a reservation under limits, with a %s plan', (plan) => {
  const limited = (texts.get('insert_key') ?? []).filter((text) => LIMITED.includes(parametersIn(text)))

  test('there are as many texts as there are kinds of it', () => {
    expect(new Set(limited.map(parametersIn))).toEqual(new Set(LIMITED))
    expect(limited).toHaveLength(LIMITED.length)
  })

  test.each(limited.map((text) => [parametersIn(text), text] as const))(
    'of %i values looks into one partition of each table',
    async (count, written) => {
      const text = written.replaceAll('"pawl".', `"${database.schema}".`)
      const { wholePartitions, passes, lookUps, usageLooks } = await readingOf(
        database,
        { text, values: valuesFor(count) },
        plan,
      )
      expect(wholePartitions).toEqual([])
      expect(passes).toBe(0)
      // The key, its effects, and unfinished keys of the scope and of the pipeline.
      expect(lookUps).toBeGreaterThan(0)
      expect(lookUps).toBeLessThanOrEqual(4)
      // Who gets a token does not look for how many are left. Of two buckets, each is looked into first, and bytes are added up.
      expect(usageLooks).toBe(count === EVERYTHING ? 3 : count === WITH_BYTES ? 1 : 0)
    },
  )
})

describe.each(['custom', 'generic'] as const)('with a %s plan', (plan) => {
  test.each(Object.entries(STATEMENTS))(
    '%s reads no partition twice, and no more than it needs',
    async (name, [values, bound]) => {
      for (const written of texts.get(name) ?? []) {
        const text = written.replaceAll('"pawl".', `"${database.schema}".`)
        const { wholePartitions, ...reading } = await readingOf(
          database,
          { text, values: values.slice(0, parametersIn(text)) },
          plan,
        )
        expect(wholePartitions).toEqual([])
        const most = { passes: 0, rows: 0, lookUps: 0, ...bound }
        for (const of of ['passes', 'rows', 'lookUps'] as const)
          expect(reading[of], `${of} of ${JSON.stringify(reading)}`).toBeLessThanOrEqual(most[of])
        expect(reading.rows + reading.lookUps, 'it found nothing').toBeGreaterThan(0)
      }
    },
  )
})
