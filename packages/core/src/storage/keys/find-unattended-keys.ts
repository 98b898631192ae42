import { BACKOFF_BASE_MS, BACKOFF_MAX_MS, DUE_KEYS_PER_LOOK } from '../../limits.js'
import { leaseIsOver, writtenAhead } from './lease-is-over.js'
import { defineStatement, NOW, type Store, unnested } from '../statement.js'

/** A version whose keys may be run here. */
export interface RunnableVersion {
  readonly pipeline: string
  readonly version: number
  /** Null stands for any, because a newer version declares how to continue from it. */
  readonly definitionHash: string | null
  /** A lease that ends later than this from now counts as over. */
  readonly leaseBoundMs: number
}

/** A place among the keys of a version, which are ordered by creation time, then by id. */
export interface Place {
  /** As PostgreSQL prints it, to the microsecond. */
  readonly createdAt: string
  readonly id: string
}

/** Before the first key. */
export const AT_START: Place = { createdAt: '-infinity', id: '00000000-0000-0000-0000-000000000000' }

/** A key that nobody holds and that is due. */
export interface DueKey extends Place {
  readonly scope: string
  readonly key: string
  /** The index of its version among the versions asked for. */
  readonly version: number
}

/**
 * A key that crashed its holder more than once waits longer each time, or a poison request would kill one process after
 * the other. Full jitter, derived from the row itself: every process arrives at the same moment, and nothing is written.
 */
const REST_AFTER_CRASH = `CASE WHEN k.attempts < 2 THEN interval '0' ELSE
           least(${BACKOFF_MAX_MS}, ${BACKOFF_BASE_MS} * (2 ^ least(k.attempts, 30)))
           * (((hashint8(k.fence) # hashtext(k.id::text)) & 2147483647) % 1000) / 1000.0 * interval '1 millisecond' END`

/** ISO 8601 in UTC, whatever the session's settings. */
const asText = (moment: string): string =>
  `pg_catalog.to_char(pg_catalog.timezone('UTC'::text, ${moment}), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'::text)`

/** There is no point in waiting for the end of a back-off that was set by a clock that has gone back since. */
const IS_RESTED = `(k.run_after IS NULL OR k.run_after <= ${NOW}
                     OR ${writtenAhead('k.')})`

const findUnattendedKeysStatement = defineStatement(
  'find_unattended_keys',
  ({ keys }) => `
  SELECT found.id, found.scope, found.key, ${asText('found.created_at')} AS created_at, v.nth - 1 AS version
    FROM ${unnested('$1::text[]', '$2::integer[]', '$3::text[]', '$4::double precision[]', '$5::timestamptz[]', '$6::uuid[]')}
         WITH ORDINALITY AS v (pipeline, version, definition_hash, lease_bound_ms, after_created, after_id, nth)
   CROSS JOIN LATERAL (
     SELECT k.id, k.scope, k.key, k.created_at, row_number() OVER (ORDER BY k.created_at, k.id) AS turn
       FROM ${keys} AS k
      WHERE k.status = 'running' AND k.pipeline = v.pipeline AND k.version = v.version AND k.kind = 'pipeline'
        AND (k.created_at, k.id) > (v.after_created, v.after_id)
        AND (v.definition_hash IS NULL OR k.definition_hash = v.definition_hash)
        AND ${leaseIsOver('k.', 'v.lease_bound_ms', ` + ${REST_AFTER_CRASH}`)}
        AND ${IS_RESTED}
      ORDER BY k.created_at, k.id LIMIT ${DUE_KEYS_PER_LOOK}
   ) AS found
   ORDER BY found.turn, found.created_at LIMIT ${DUE_KEYS_PER_LOOK}`,
)

/**
 * Running keys that nobody holds and that are due; of each version, those after the place given for it. Oldest first, and
 * versions take turns. It locks nothing. If it returns fewer than `DUE_KEYS_PER_LOOK`, there are no more.
 */
export async function findUnattendedKeys(
  store: Store,
  versions: readonly RunnableVersion[],
  after: readonly Place[],
): Promise<DueKey[]> {
  const { rows } = await findUnattendedKeysStatement(store, [
    versions.map((version) => version.pipeline),
    versions.map((version) => version.version),
    versions.map((version) => version.definitionHash),
    versions.map((version) => version.leaseBoundMs),
    after.map((place) => place.createdAt),
    after.map((place) => place.id),
  ])
  return rows.map((row) => ({
    id: row['id'] ?? '',
    scope: row['scope'] ?? '',
    key: row['key'] ?? '',
    createdAt: row['created_at'] ?? '',
    version: Number(row['version']),
  }))
}
