import { DUE_KEYS_PER_LOOK } from '../../limits.js'
import { asText, type DueKey, isDue, type Place, readDueKey, type RunnableVersion } from './due-keys.js'
import { defineStatement, type Store, unnested } from '../statement.js'

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
        AND ${isDue({ hash: 'v.definition_hash', leaseBoundMs: 'v.lease_bound_ms', afterCreated: 'v.after_created', afterId: 'v.after_id' })}
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
  return rows.map((row) => readDueKey(row, Number(row['version'])))
}
