import { randomUUID } from 'node:crypto'
import { createEngine as createPlainEngine } from '@pawl/core'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { amountOf } from '../support/amounts.js'
import { countedReaper, countOf, insertExpired, keysLeft, note } from '../support/expired-keys.js'
import type { Database } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

/** How many expired keys are deleted while requests run. A million takes some minutes. */
const KEYS = amountOf('reapKeys')
const BATCH_SIZE = 500
const TIMEOUT_MS = 15 * 60_000

const database = await TestDatabase.createPlain()
afterAll(() => database.drop())

interface Sent {
  readonly text: string
  readonly values: unknown[]
}

/** What begins and ends a transaction, and the question how the tables are stored. */
const NOT_OF_THE_REAPER = /^(BEGIN|END|ROLLBACK)|pg_dist_shard/

/** A pool that records what the reaper sends through it. */
function listeningPool(sent: Sent[]): pg.Pool {
  const pool = database.pool({ max: 1 })
  pool.on('connect', (client) => {
    const listened = client as unknown as { query: (config: Sent, ...more: unknown[]) => unknown }
    const query = listened.query.bind(client)
    listened.query = (statement, ...more) => {
      if (!NOT_OF_THE_REAPER.test(statement.text)) sent.push(statement)
      return query(statement, ...more)
    }
  })
  return pool
}

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Shared Hit Blocks'?: number
  readonly Plans?: readonly Plan[]
}

async function explain(options: string, { text, values }: Sent): Promise<Plan[]> {
  const flatten = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(flatten)]
  const client = await database.admin.connect()
  try {
    await client.query('BEGIN')
    const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
      `EXPLAIN (${options}, FORMAT JSON) ${text}`,
      values,
    )
    return rows.flatMap((row) => flatten(row['QUERY PLAN'][0].Plan))
  } finally {
    await client.query('ROLLBACK')
    client.release()
  }
}

describe('among 20,000 keys', () => {
  const sent: Sent[] = []
  let steps: string[] = []

  beforeAll(async () => {
    await insertExpired(database, 20_000)
    await database.rows(
      `UPDATE pawl.idempotency_keys SET expires_at = expires_at + interval '1 year' WHERE key::integer > 5000`,
    )
    await database.rows(
      `INSERT INTO pawl.effects (key_id, scope, key, pipeline, version, fence, phase, effect, provider_key, created_at)
       SELECT gen_random_uuid(), 's', n::text, 'note', 1, 1, 'p', 'e', 'k', clock_timestamp() - n * interval '1 hour'
         FROM generate_series(1, 20000) AS n`,
    )
    await database.rows(
      `CREATE TABLE ${database.businessSchema}.trips (key_id uuid REFERENCES pawl.idempotency_keys (id));
       CREATE INDEX ON ${database.businessSchema}.trips (key_id)`,
    )
    await database.rows(`INSERT INTO trips SELECT id FROM pawl.idempotency_keys WHERE key = '7'`)
    await database.rows('VACUUM ANALYZE pawl.idempotency_keys')
    await database.rows('VACUUM ANALYZE pawl.effects')
  })

  test('every statement of the reaper uses an index', async () => {
    const reaping = countedReaper(
      database,
      { batchSize: BATCH_SIZE },
      { pool: listeningPool(sent), pipelining: false },
    )
    steps = reaping.sent
    await reaping.reaper.runOnce()
    const wanted: Record<string, [string, ...string[]]> = {
      reap_keys: ['idempotency_keys_finished', 'idempotency_keys_scope_key_key'],
      find_expired_keys: ['idempotency_keys_finished'],
      reap_these_keys: ['idempotency_keys_scope_key_key'],
      put_off_keys: ['idempotency_keys_scope_key_key'],
      reap_effects: ['effects_by_time', 'effects_pkey', 'idempotency_keys_scope_key_key'],
    }
    expect([...new Set(steps)].toSorted()).toEqual(Object.keys(wanted).toSorted())
    for (const [index, step] of steps.entries()) {
      const nodes = await explain('COSTS', sent[index] as Sent)
      const scans = nodes.filter(
        (node) => node['Relation Name'] !== undefined && node['Node Type'].includes('Scan'),
      )
      const bitmaps = nodes.filter((node) => node['Node Type'] === 'Bitmap Index Scan')
      const indexes = [...scans, ...bitmaps].map((node) => node['Index Name'] ?? node['Node Type'])
      for (const name of indexes.filter((each) => each !== 'Bitmap Heap Scan')) {
        expect([step, wanted[step]]).toEqual([step, expect.arrayContaining([name])])
      }
      // The batch itself is found by time, never by reading everything.
      expect(indexes).toContain(wanted[step]?.[0])
    }
  })
})

test('a batch does not read what earlier batches have deleted, however old the oldest open transaction is', async () => {
  const sent: Sent[] = []
  // What the server learns about the table meanwhile must not change the plans that we compare.
  await database.rows('ALTER TABLE pawl.idempotency_keys SET (autovacuum_enabled = false)')
  await insertExpired(database, 4_000, 'more')
  await database.rows('ANALYZE pawl.idempotency_keys')
  const backup = await database.admin.connect()
  onTestFinished(() => backup.release(true))
  await backup.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await backup.query(`SELECT FROM ${database.schema}.idempotency_keys LIMIT 1`)
  const { reaper } = countedReaper(
    database,
    { batchSize: 100 },
    { pool: listeningPool(sent), pipelining: false },
  )
  expect(await reaper.runOnce()).toMatchObject({ deleted: 4_000 })
  const last = sent.findLast(({ text }) => text.includes('expires_at'))
  if (last === undefined) throw new Error('nothing was sent')
  const [limit] = last.values
  const blocks = async (values: unknown[]) =>
    (await explain('ANALYZE, BUFFERS', { text: last.text, values }))[0]?.['Shared Hit Blocks'] ?? 0
  expect(await blocks(last.values)).toBeLessThan((await blocks([limit, null])) / 4)
})

test(
  `${KEYS} keys are deleted by bounded statements, and no request ever waits for the reaper`,
  async () => {
    const reaped = await TestDatabase.createNew()
    await insertExpired(reaped, KEYS)
    await reaped.rows(
      `CREATE TABLE pawl.deletions (rows integer NOT NULL);
       CREATE FUNCTION pawl.count_deletion() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         INSERT INTO pawl.deletions SELECT count(*) FROM gone; RETURN NULL; END $$;
       CREATE TRIGGER count_deletion AFTER DELETE ON pawl.idempotency_keys REFERENCING OLD TABLE AS gone
         FOR EACH STATEMENT EXECUTE FUNCTION pawl.count_deletion()`,
    )
    const background = `reaper_${randomUUID()}`
    const foreground = `requests_${randomUUID()}`
    let begunAt = 0
    let longestMs = 0
    const { reaper, sent } = countedReaper(
      reaped,
      { batchSize: BATCH_SIZE },
      { pool: reaped.pool({ max: 1, application_name: background }) },
      () => {
        longestMs = Math.max(longestMs, performance.now() - begunAt)
      },
      () => {
        begunAt = performance.now()
      },
    )
    const engine = createPlainEngine<Database>({
      pool: reaped.pool({ max: 4, application_name: foreground }),
      pipelines: [note],
      schema: reaped.schema,
    })
    const execute = (key: string) => engine.execute(note, { scope: 'rider', key, input: null })
    await execute('again and again')

    const done = new AbortController()
    const whileReaping = async (work: () => Promise<unknown>) => {
      let times = 0
      for (; !done.signal.aborted || times === 0; times++) await work()
      return times
    }
    const types = new Set<string>()
    const blocked: unknown[] = []
    const startedAt = performance.now()
    const [counts, fresh, , samples] = await Promise.all([
      reaper.runOnce().finally(() => done.abort()),
      whileReaping(async () => types.add((await execute(randomUUID())).type)),
      whileReaping(async () => types.add((await execute('again and again')).type)),
      whileReaping(async () =>
        blocked.push(
          ...(await reaped.rows(
            `SELECT waiting.query FROM pg_stat_activity AS waiting, unnest(pg_blocking_pids(waiting.pid)) AS blocker
               JOIN pg_stat_activity AS blocking ON blocking.pid = blocker
              WHERE waiting.application_name = $1 AND blocking.application_name = $2`,
            [foreground, background],
          )),
        ),
      ),
    ])
    const tookMs = performance.now() - startedAt
    expect(counts).toEqual({
      deleted: KEYS,
      held: 0,
      effectsDeleted: 0,
      usageDeleted: 0,
      duplicatesDeleted: 0,
    })
    expect(types).toEqual(new Set(['completed', 'replayed']))
    expect(blocked).toEqual([])
    expect(samples).toBeGreaterThan(0)
    const [most] = await reaped.rows<{ most: number; total: number }>(
      'SELECT max(rows) AS most, sum(rows)::int AS total FROM pawl.deletions',
    )
    expect(most).toEqual({ most: Math.min(KEYS, BATCH_SIZE), total: KEYS })
    // If the last batch is full, another follows and finds nothing.
    expect(countOf(sent, 'reap_keys')).toBe(Math.floor(KEYS / BATCH_SIZE) + 1)
    expect(await keysLeft(reaped)).toHaveLength(fresh + 1)
    if (process.env['PAWL_REAP_KEYS'] !== undefined) {
      const batches = countOf(sent, 'reap_keys')
      console.log(JSON.stringify({ KEYS, batches, tookMs, longestMs, requests: fresh, samples }))
    }
    await engine.close()
    await reaped.drop()
  },
  TIMEOUT_MS,
)
