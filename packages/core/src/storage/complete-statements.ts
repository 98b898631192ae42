import { BACKOFF_BASE_MS, BACKOFF_MAX_MS, MAX_DUE_KEYS_SEEN } from '../limits.js'
import { boundedBy, defineStatement, msInterval, type Store, unnested } from './statement.js'

/** A version whose keys may be run here. */
export interface RunnableVersion {
  readonly pipeline: string
  readonly version: number
  /** Null: any, because a newer version declares how to go on from it. */
  readonly definitionHash: string | null
}

/**
 * A key that crashed its holder more than once waits longer each time, or a poison request would kill one process after
 * the other. Full jitter, drawn from the row itself: every process reckons with the same moment, and nothing is written.
 */
const REST_AFTER_CRASH = `CASE WHEN k.attempts < 2 THEN interval '0' ELSE
           least(${BACKOFF_MAX_MS}, ${BACKOFF_BASE_MS} * (2 ^ least(k.attempts, 30)))
           * (((hashint8(k.fence) # hashtext(k.id::text)) & 2147483647) % 1000) / 1000.0 * interval '1 millisecond' END`

const findAbandonedKeysStatement = defineStatement(
  'find_abandoned_keys',
  ({ keys }) => `
  SELECT found.id
    FROM ${unnested('$1::text[]', '$2::integer[]', '$3::text[]')} AS v (pipeline, version, definition_hash)
   CROSS JOIN LATERAL (
     SELECT due.id, due.since, row_number() OVER (ORDER BY due.since) AS nth
       FROM (SELECT k.id, greatest(k.created_at, k.lease_until, k.run_after) AS since
               FROM ${keys} AS k
              WHERE k.status = 'running' AND k.pipeline = v.pipeline AND k.version = v.version
                AND (v.definition_hash IS NULL OR k.definition_hash = v.definition_hash)
                AND (k.lease_until IS NULL OR k.lease_until + ${REST_AFTER_CRASH} <= clock_timestamp())
                AND (k.run_after IS NULL OR k.run_after <= clock_timestamp())
                AND k.id <> ALL ($4::uuid[])
              ORDER BY k.created_at LIMIT ${MAX_DUE_KEYS_SEEN}) AS due
      ORDER BY due.since LIMIT $5::integer
   ) AS found
   ORDER BY found.nth, found.since LIMIT $5::integer`,
)

/**
 * The ids of running keys that nobody holds and that are due. Those that have been due for longest come first, and
 * versions take turns: what fails again and again does not hold up the rest. It locks nothing.
 */
export async function findAbandonedKeys(
  store: Store,
  versions: readonly RunnableVersion[],
  except: readonly string[],
  limit: number,
): Promise<string[]> {
  const { rows } = await findAbandonedKeysStatement(store, [
    versions.map((version) => version.pipeline),
    versions.map((version) => version.version),
    versions.map((version) => version.definitionHash),
    except,
    limit,
  ])
  return rows.map((row) => row['id'] ?? '')
}

/** A version whose keys commit everything at once: one that has not committed has left nothing behind. */
export interface ForgettableVersion extends RunnableVersion {
  readonly forgetAfterMs: number
}

const forgetAbandonedKeysStatement = defineStatement(
  'forget_abandoned_keys',
  ({ keys }) => `
  WITH old AS (
    SELECT found.id
      FROM ${unnested('$1::text[]', '$2::integer[]', '$3::text[]', '$4::double precision[]')}
           AS v (pipeline, version, definition_hash, forget_after_ms)
     CROSS JOIN LATERAL (
       SELECT k.id FROM ${keys} AS k
        WHERE k.status = 'running' AND k.pipeline = v.pipeline AND k.version = v.version
          AND k.definition_hash = v.definition_hash AND k.recovery_point = 'started'
          AND k.created_at <= (clock_timestamp() - ${msInterval('v.forget_after_ms')})
          AND k.intent IS NULL AND (k.lease_until IS NULL OR k.lease_until <= clock_timestamp())
        ORDER BY k.created_at LIMIT $5::integer FOR UPDATE SKIP LOCKED
     ) AS found
  )
  DELETE FROM ${keys} AS k USING ${boundedBy('$6')} WHERE k.id = ANY (ARRAY(SELECT id FROM old))
  RETURNING k.id`,
)

/** Deletes keys that nobody came back for, of versions that leave nothing behind; gives how many. */
export async function forgetAbandonedKeys(
  store: Store,
  versions: readonly ForgettableVersion[],
  limit: number,
  lockTimeoutMs: number,
): Promise<number> {
  const { rows } = await forgetAbandonedKeysStatement(store, [
    versions.map((version) => version.pipeline),
    versions.map((version) => version.version),
    versions.map((version) => version.definitionHash),
    versions.map((version) => version.forgetAfterMs),
    limit,
    String(lockTimeoutMs),
  ])
  return rows.length
}
