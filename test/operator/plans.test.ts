import { randomUUID } from 'node:crypto'
import { createOperator, type Operator } from '@pawl/core'
import pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { IS_PARTITIONED } from '../support/layout.js'
import { parentNames } from '../support/parent-names.js'
import { seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.createNew()
afterAll(() => database.drop())

// As in production, most keys are finished and a few are not. There are enough rows that reading a whole table costs more.
await database.rows(
  `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version,
     input, holder, status, recovery_point, stuck_reason, response_status, response_headers, response_body, expires_at)
   SELECT 'scope-' || n % 500, n::text, 'filler-' || n % 3, 1 + n % 2, '0123456789abcdef', sha256(''), 1, '{}',
          gen_random_uuid(), s.status, CASE s.status WHEN 'finished' THEN 'finished' ELSE 'started' END,
          CASE s.status WHEN 'stuck' THEN 'too_old' END, CASE s.status WHEN 'finished' THEN 204 END,
          CASE s.status WHEN 'finished' THEN '{}'::json END, CASE s.status WHEN 'finished' THEN ''::bytea END,
          CASE s.status WHEN 'finished' THEN clock_timestamp() + (n - 1000) * interval '1 s' END
     FROM generate_series(1, 20000) AS n, LATERAL (
       SELECT CASE WHEN n % 200 = 0 THEN 'running' WHEN n % 500 = 1 THEN 'stuck' ELSE 'finished' END AS status) AS s`,
)
await database.rows(
  `INSERT INTO pawl.effects (key_id, scope, key, pipeline, version, fence, phase, effect, provider_key, created_at)
   SELECT gen_random_uuid(), 's-' || n % 64, n::text, 'p', 1, 1, 'x', 'x', 'x', timestamptz '2026-01-01Z' + n * interval '1 min'
     FROM generate_series(1, 20000) AS n`,
)
await database.rows(
  `INSERT INTO pawl.staged_jobs (id, scope, seq, name, payload, key_id, dead_at)
   SELECT gen_random_uuid(), 's-' || n % 64, n, 'mail', '{}', gen_random_uuid(), CASE WHEN n % 10 = 0 THEN clock_timestamp() END
     FROM generate_series(1, 10000) AS n`,
)
await database.rows(
  `INSERT INTO pawl.interventions (key_id, action, actor) SELECT gen_random_uuid(), 'x', 'x' FROM generate_series(1, 5000)`,
)
const TABLES = ['idempotency_keys', 'effects', 'staged_jobs', 'interventions']
for (const table of TABLES) await database.rows(`ANALYZE pawl.${table}`)

const stuck = { scope: 'plans', key: 'stuck' }
const stuckId = await seedKey(database, { ...stuck, status: 'stuck' })
const given = { scope: 'plans', key: 'given up' }
await seedKey(database, { ...given, status: 'stuck' })
const held = { scope: 'plans', key: 'held' }
await seedKey(database, { ...held, leaseIn: '10 min' })
const alsoHeldId = await seedKey(database, { leaseIn: '10 min' })

const done = { scope: 'plans', key: 'done' }
await seedKey(database, { ...done, status: 'finished' })

const because = { actor: 'anna', reason: 'plans' }
const window = { from: new Date('2026-01-03'), to: new Date('2026-01-04') }
const [deadJob] = await createOperator({ pool: database.admin, schema: database.schema }).deadJobs({
  limit: 1,
})

const RUNNING = 'idempotency_keys_running'
const STUCK = 'idempotency_keys_stuck'
const FINISHED = 'idempotency_keys_finished'
const UNFINISHED = 'idempotency_keys_unfinished'
const BY_NAME = 'idempotency_keys_scope_key_key'
const BY_ID = 'idempotency_keys_pkey'

/** The indexes that serve each method; no table is read as a whole. */
const METHODS: readonly (readonly [string, (op: Operator) => Promise<unknown>, readonly string[]])[] = [
  ['status', (op) => op.status(), [FINISHED, RUNNING, STUCK, 'staged_jobs_dead', 'staged_jobs_waiting']],
  ['list', (op) => op.list(), [RUNNING, STUCK]],
  ['list running', (op) => op.list({ status: 'running', pipeline: 'filler-1', version: 1 }), [RUNNING]],
  ['list unattended', (op) => op.list({ status: 'unattended', olderThanMs: 60_000 }), [RUNNING]],
  ['list stuck', (op) => op.list({ status: 'stuck', stuckReason: 'too_old' }), [STUCK]],
  ['list finished', (op) => op.list({ status: 'finished' }), [FINISHED]],
  ['list finished of a scope', (op) => op.list({ status: 'finished', scope: 'scope-7' }), [BY_NAME]],
  ['show', (op) => op.show(stuck), [BY_NAME, 'effects_pkey', 'interventions_by_key', 'staged_jobs_pkey']],
  [
    'show by id',
    async (op) => op.show({ keyId: stuckId }),
    [BY_ID, 'effects_pkey', 'interventions_by_key', 'staged_jobs_pkey'],
  ],
  ['unstick', (op) => op.unstick(stuck, because), [BY_NAME]],
  ['revoke', (op) => op.revoke(held, because), [BY_NAME]],
  ['revoke by id', (op) => op.revoke({ keyId: alsoHeldId }, because), [BY_ID, BY_NAME]],
  ['answer', (op) => op.answer(given, because, { status: 410 }), [BY_NAME]],
  ['extend', (op) => op.extend(done, because, new Date(Date.now() + 300 * 86_400_000)), [BY_NAME]],
  ['forget', (op) => op.forget(done, because), [BY_NAME, 'effects_pkey', 'interventions_by_key']],
  [
    'erase',
    (op) => op.erase({ scope: 'scope-7', ...because }),
    [BY_NAME, BY_ID, 'effects_pkey', 'interventions_by_key', 'interventions_pkey', 'staged_jobs_by_scope'],
  ],
  [
    'erase of a key',
    (op) => op.erase({ scope: 'scope-7', key: '7', ...because }),
    [
      BY_NAME,
      BY_ID,
      'effects_pkey',
      'interventions_by_key',
      'interventions_pkey',
      'staged_jobs_by_scope',
      'staged_jobs_pkey',
    ],
  ],
  ['deadJobs', (op) => op.deadJobs(), ['staged_jobs_dead']],
  ['deadJobs of a name', (op) => op.deadJobs({ name: 'mail' }), ['staged_jobs_dead']],
  [
    'requeue by id',
    (op) => op.requeue({ jobIds: [deadJob?.jobId ?? '', randomUUID()] }, because),
    [BY_ID, 'staged_jobs_dead_by_id', 'staged_jobs_pkey'],
  ],
  ['requeue', (op) => op.requeue({ all: true }, because), [BY_ID, 'staged_jobs_dead', 'staged_jobs_pkey']],
  ['drain', (op) => op.drain('filler-1', 1), [RUNNING, STUCK]],
  ['hasKeysOf', (op) => op.hasKeysOf('no such name'), [FINISHED, RUNNING, STUCK]],
  ['countUnfinished', (op) => op.countUnfinished(new Date()), [RUNNING, STUCK]],
  [
    'effects',
    async (op) => {
      for await (const effect of op.effects(window)) expect(effect.at >= window.from).toBe(true)
    },
    ['effects_by_time'],
  ],
  ['doctor', (op) => op.doctor(), [FINISHED, RUNNING, STUCK, 'staged_jobs_dead', 'staged_jobs_waiting']],
]

/** Where small partitions make other indexes the cheaper ones. */
const INDEXES_OF_PARTITIONS: Readonly<Record<string, readonly string[]>> = {
  status: [FINISHED, RUNNING, STUCK, UNFINISHED, 'staged_jobs_dead', 'staged_jobs_waiting'],
  'erase of a key': [
    BY_NAME,
    BY_ID,
    'effects_pkey',
    'interventions_by_key',
    'interventions_pkey',
    'staged_jobs_by_scope',
  ],
  countUnfinished: [RUNNING, STUCK, UNFINISHED],
  doctor: [FINISHED, RUNNING, STUCK, UNFINISHED, 'staged_jobs_dead', 'staged_jobs_waiting'],
}

/** Jobs know their scope by a column alone: an index on it would cost every job. Delivered ones are gone, so the table is small. */
const READ_WHOLE: Readonly<Record<string, string>> = { erase: 'staged_jobs' }

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly Plans?: readonly Plan[]
}

interface Sent {
  readonly text: string
  readonly values?: readonly unknown[]
}

const flatten = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(flatten)]

/** A client that cannot send statements together, so that each can be seen. */
class OneByOne extends pg.Client {
  static readonly Query = { prototype: {} }
}

/** Calls a method, and has each of its statements explained. */
async function plansOf(ask: (op: Operator) => Promise<unknown>): Promise<Plan[]> {
  const sent: Sent[] = []
  const pool = database.pool({ max: 1, Client: OneByOne })
  pool.on('connect', (client) => {
    const heard = client as unknown as { query: (config: Sent, ...more: unknown[]) => unknown }
    const query = heard.query.bind(client)
    heard.query = (config, ...more) => {
      if (!/^(BEGIN|END|ROLLBACK)/.test(config.text)) sent.push(config)
      return query(config, ...more)
    }
  })
  await ask(createOperator({ pool, schema: database.schema }))
  const plans: Plan[] = []
  for (const { text, values = [] } of sent) {
    const [row] = await database.rows<{ 'QUERY PLAN': [{ Plan: Plan }] }>(`EXPLAIN (FORMAT JSON) ${text}`, [
      ...values,
    ])
    if (row !== undefined) plans.push(...flatten(row['QUERY PLAN'][0].Plan))
  }
  return plans
}

describe('every statement of an operator goes by an index', () => {
  test.each(METHODS)('%s', async (method, ask, indexes) => {
    const nodes = await plansOf(ask)
    const parentOf = await parentNames(database)
    const whole = nodes.filter(
      (node) =>
        node['Node Type'] === 'Seq Scan' &&
        TABLES.includes(parentOf(node['Relation Name'] ?? '')) &&
        parentOf(node['Relation Name'] ?? '') !== READ_WHOLE[method],
    )
    expect(whole).toEqual([])
    const used = nodes.flatMap((node) => node['Index Name'] ?? []).map(parentOf)
    const ours = used.filter((name) => TABLES.some((table) => name.startsWith(table)))
    const expected = (IS_PARTITIONED && INDEXES_OF_PARTITIONS[method]) || indexes
    expect([...new Set(ours)].toSorted()).toEqual(expected.toSorted())
  })
})
