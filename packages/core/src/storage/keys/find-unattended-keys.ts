import { DUE_KEYS_PER_LOOK, KEYS_READ_PER_LOOK } from '../../limits.js'
import { type DueKeys, isDue, readDueKey, type RunnableVersion } from './due-keys.js'
import { defineStatement, type Store, unnested } from '../statement.js'

/** The last row that was read is returned as well: if there is one, there may be more. */
const findUnattendedKeysStatement = defineStatement(
  'find_unattended_keys',
  ({ keys }) => `
  SELECT found.id, found.scope, found.key, found.is_due, found.nth >= ${KEYS_READ_PER_LOOK} AS is_last
    FROM ${unnested('$1::text[]', '$2::integer[]', '$3::text[]', '$4::double precision[]')}
         AS v (pipeline, version, definition_hash, lease_bound_ms)
   CROSS JOIN LATERAL (
     SELECT old.id, old.scope, old.key, old.created_at, old.is_due, row_number() OVER oldest AS nth,
            count(*) FILTER (WHERE old.is_due) OVER oldest AS turn
       FROM (SELECT k.id, k.scope, k.key, k.created_at,
                    (${isDue({ hash: 'v.definition_hash', leaseBoundMs: 'v.lease_bound_ms' })}) AS is_due
               FROM ${keys} AS k
              WHERE k.status = 'running' AND k.pipeline = v.pipeline AND k.version = v.version AND k.kind = 'pipeline'
              ORDER BY k.created_at, k.id LIMIT ${KEYS_READ_PER_LOOK}) AS old
     WINDOW oldest AS (ORDER BY old.created_at, old.id ROWS UNBOUNDED PRECEDING)
   ) AS found
   WHERE found.is_due OR found.nth >= ${KEYS_READ_PER_LOOK}
   ORDER BY found.turn, found.created_at LIMIT ${DUE_KEYS_PER_LOOK}`,
)

/**
 * Running keys that nobody holds and that are due, among the oldest of each version. Oldest first, and versions take turns. It locks
 * nothing, and reads no more than so many rows of each version, however many there are.
 */
export async function findUnattendedKeys(
  store: Store,
  versions: readonly RunnableVersion[],
): Promise<DueKeys> {
  const { rows } = await findUnattendedKeysStatement(store, [
    versions.map((version) => version.pipeline),
    versions.map((version) => version.version),
    versions.map((version) => version.definitionHash),
    versions.map((version) => version.leaseBoundMs),
  ])
  return {
    keys: rows.filter((row) => row['is_due'] === 't').map(readDueKey),
    areAll: rows.length < DUE_KEYS_PER_LOOK && rows.every((row) => row['is_last'] === 'f'),
  }
}
