import { randomUUID } from 'node:crypto'
import type { TestDatabase } from './test-database.js'

/** How a seeded key differs from an ordinary one. Times are SQL intervals counted from now. */
export interface SeededKey {
  readonly scope?: string
  readonly key?: string
  readonly pipeline?: string
  readonly kind?: 'pipeline' | 'atomic'
  readonly version?: number
  readonly definitionHash?: string
  readonly status?: 'running' | 'finished' | 'stuck'
  readonly stuckReason?: string
  readonly recoveryPoint?: string
  readonly createdAgo?: string
  readonly updatedAgo?: string
  readonly leaseIn?: string
  readonly runIn?: string
  readonly expiresIn?: string
}

/** Writes a key as if an engine had left it like this. Returns its id. */
export async function seedKey(database: TestDatabase, seed: SeededKey = {}): Promise<string> {
  const { status = 'running' } = seed
  const isFinished = status === 'finished'
  const [row] = await database.rows<{ id: string }>(
    `INSERT INTO pawl.idempotency_keys (scope, key, pipeline, version, definition_hash, fingerprint, fingerprint_version,
       input, holder, kind, status, stuck_reason, recovery_point, created_at, updated_at, lease_until, run_after, expires_at,
       response_status, response_headers, response_body)
     VALUES ($1, $2, $3, $4, $5, sha256(''), 1, '{}', gen_random_uuid(), $17, $6, $7, $8,
             clock_timestamp() - $9::interval, clock_timestamp() - $10::interval, clock_timestamp() + $11::interval,
             clock_timestamp() + $12::interval, clock_timestamp() + $13::interval, $14, $15, $16) RETURNING id`,
    [
      seed.scope ?? 'seeded',
      seed.key ?? randomUUID(),
      seed.pipeline ?? 'seeded',
      seed.version ?? 1,
      seed.definitionHash ?? '0123456789abcdef',
      status,
      status === 'stuck' ? (seed.stuckReason ?? 'too_old') : null,
      isFinished ? 'finished' : (seed.recoveryPoint ?? 'started'),
      seed.createdAgo ?? '0',
      seed.updatedAgo ?? seed.createdAgo ?? '0',
      seed.leaseIn ?? null,
      seed.runIn ?? null,
      isFinished ? (seed.expiresIn ?? '1 day') : null,
      isFinished ? 204 : null,
      isFinished ? '{}' : null,
      isFinished ? Buffer.alloc(0) : null,
      seed.kind ?? 'pipeline',
    ],
  )
  return row?.id ?? ''
}

/** Writes a staged job, which is to be delivered if `deadAgo` is null. Returns its id. */
export async function seedJob(
  database: TestDatabase,
  seed: {
    readonly name?: string
    readonly keyId?: string
    readonly dueAgo?: string
    readonly deadAgo?: string | null
  } = {},
): Promise<string> {
  const [row] = await database.rows<{ id: string }>(
    `INSERT INTO pawl.staged_jobs
       (id, scope, seq, name, payload, key_id, attempts, run_after, dead_at, last_error, claim, claim_until)
     VALUES (gen_random_uuid(), coalesce((SELECT scope FROM pawl.idempotency_keys WHERE id = $2), 's'), (SELECT 1 + count(*) FROM pawl.staged_jobs), $1, '{"n":1}', $2, 7, clock_timestamp() - $3::interval, clock_timestamp() - $4::interval,
             'queue away', gen_random_uuid(), clock_timestamp()) RETURNING id`,
    [seed.name ?? 'mail', seed.keyId ?? randomUUID(), seed.dueAgo ?? '0', seed.deadAgo ?? null],
  )
  return row?.id ?? ''
}

/** How a seeded effect differs from an ordinary one. */
export interface SeededEffect {
  readonly keyId?: string
  readonly scope?: string
  readonly key?: string
  readonly reference?: string | null
  readonly providerKey?: string
  readonly effectName?: string
  readonly at: Date | string
}

/** Writes a settled effect at a moment. */
export async function seedEffect(database: TestDatabase, seed: SeededEffect): Promise<void> {
  const { reference = randomUUID(), providerKey = randomUUID(), effectName = 'charge' } = seed
  const { keyId = randomUUID(), scope = 'seeded', key = randomUUID() } = seed
  await database.rows(
    `INSERT INTO pawl.effects (key_id, scope, key, pipeline, version, fence, phase, effect, provider_key, reference,
                               created_at)
     VALUES ($5, $6, $7, 'seeded', 1, 1, $1, $1, $2, $3, $4)`,
    [effectName, providerKey, reference, seed.at, keyId, scope, key],
  )
}
