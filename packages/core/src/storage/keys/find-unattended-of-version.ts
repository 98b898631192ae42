import { DUE_KEYS_PER_LOOK } from '../../limits.js'
import { asText, type DueKey, isDue, type Place, readDueKey, type RunnableVersion } from './due-keys.js'
import { readAllShards } from '../schema/read-all-shards.js'
import { defineStatement, type Store } from '../statement.js'

const findUnattendedOfVersionStatement = defineStatement(
  'find_unattended_of_version',
  ({ keys }) => `
  SELECT k.id, k.scope, k.key, ${asText('k.created_at')} AS created_at
    FROM ${keys} AS k
   WHERE k.status = 'running' AND k.pipeline = $1 AND k.version = $2::integer AND k.kind = 'pipeline'
     AND ${isDue({ hash: '$3::text', leaseBoundMs: '$4', afterCreated: '$5::timestamptz', afterId: '$6::uuid' })}
   ORDER BY k.created_at, k.id LIMIT ${DUE_KEYS_PER_LOOK}`,
)

/** Due keys of one version, after a place, oldest first: Citus cannot execute a part of a statement once for each version. */
export async function findUnattendedOfVersion(
  store: Store,
  { pipeline, version, definitionHash, leaseBoundMs }: RunnableVersion,
  after: Place,
  nth: number,
): Promise<DueKey[]> {
  const values = [pipeline, version, definitionHash, leaseBoundMs, after.createdAt, after.id]
  const rows = await readAllShards(findUnattendedOfVersionStatement, store, values, store.tables.keys)
  return rows
    .map((row) => readDueKey(row, nth))
    .toSorted(byPlace)
    .slice(0, DUE_KEYS_PER_LOOK)
}

/** Both are texts of one form, so that the order of the texts is the order of the keys. */
export function byPlace(a: Place, b: Place): number {
  const [first, second] = [`${a.createdAt} ${a.id}`, `${b.createdAt} ${b.id}`]
  return first < second ? -1 : Number(first > second)
}
