import { randomUUID } from 'node:crypto'
import { seedEffect, seedKey, type SeededKey } from '../support/seeded-rows.js'
import type { TestDatabase } from '../support/test-database.js'

export const because = { actor: 'privacy@ops-1', reason: 'Request 4711' }

export const SECRET = 'a secret of thirty-two characters'

const TABLES = ['idempotency_keys', 'effects', 'staged_jobs', 'interventions', 'scope_usage', 'duplicates']

/** Everything that the framework's tables hold, as text: where something is looked for that must not be there. */
export async function dump(database: TestDatabase): Promise<string> {
  const parts = await Promise.all(
    TABLES.map((table) =>
      database.rows<{ all: string | null }>(
        `SELECT string_agg(t::text, E'\\n' ORDER BY t::text) AS all FROM pawl.${table} AS t`,
      ),
    ),
  )
  return parts.map(([row]) => row?.all ?? '').join('\n')
}

export const daysAgo = (days: number): Date => new Date(Date.now() - days * 86_400_000)

/** One of everything that a request can leave, from two days ago. */
export async function fillScope(
  database: TestDatabase,
  scope: string,
  key: string,
  more: SeededKey = {},
): Promise<string> {
  const keyId = await seedKey(database, { scope, key, status: 'finished', createdAgo: '2 days', ...more })
  await seedEffect(database, { scope, key, keyId, reference: `ch_${key}`, at: daysAgo(2) })
  await addJob(database, { scope, keyId, dead: true })
  await database.rows(
    `INSERT INTO pawl.interventions (id, key_id, scope, key, action, actor, reason, detail, created_at)
     VALUES ($1, $2, $3, $4, 'answer', 'anna', 'the rider of ' || $4 || ' called', json_build_object('of', $4::text), clock_timestamp() - interval '2 days')`,
    [randomUUID(), keyId, scope, key],
  )
  await database.rows(
    `INSERT INTO pawl.scope_usage (scope, kind, tokens, refilled_at, per_ms) VALUES ($1, 'new_keys', 1, clock_timestamp(), 1)
     ON CONFLICT (scope, kind, pipeline, part) DO NOTHING`,
    [scope],
  )
  await database.rows(
    `INSERT INTO pawl.duplicates (scope, minute, pipeline, replayed) VALUES ($1, clock_timestamp(), 'note', 1)
     ON CONFLICT (scope, minute, pipeline) DO NOTHING`,
    [scope],
  )
  return keyId
}

export async function addJob(
  database: TestDatabase,
  job: { readonly scope: string; readonly keyId: string; readonly dead: boolean; readonly claimed?: boolean },
): Promise<void> {
  await database.rows(
    `INSERT INTO pawl.staged_jobs (id, scope, key_id, seq, name, payload, dead_at, claim, claim_until, created_at, last_error)
     VALUES (gen_random_uuid(), $1, $2, (SELECT 1 + count(*) FROM pawl.staged_jobs), 'mail', json_build_object('to', $1::text),
             CASE WHEN $3::boolean THEN clock_timestamp() END, gen_random_uuid(),
             CASE WHEN $4::boolean THEN clock_timestamp() + interval '1 min' END, clock_timestamp() - interval '1 day', 'no box of ' || $1)`,
    [job.scope, job.keyId, job.dead, job.claimed ?? false],
  )
}

/** Finished keys without anything else, quickly. */
export async function fillKeys(database: TestDatabase, scope: string, count: number): Promise<void> {
  await database.rows(
    `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version,
       input, holder, status, recovery_point, response_status, response_headers, response_body, expires_at, created_at)
     SELECT $1, 'k' || n, 'p', 1, 'h', '', 1, '{}', gen_random_uuid(), 'finished', 'finished', 204, '{}', '', clock_timestamp() + interval '1 day',
            clock_timestamp() - interval '1 day' FROM generate_series(1, $2::integer) AS n`,
    [scope, count],
  )
}

export async function countKeys(database: TestDatabase, scope: string): Promise<number> {
  const [row] = await database.rows<{ n: number }>(
    'SELECT count(*)::int AS n FROM pawl.idempotency_keys WHERE scope = $1',
    [scope],
  )
  return row?.n ?? -1
}
