import { DUE_KEYS_PER_LOOK } from '../../limits.js'
import { type DueKeys, isDue, readDueKey, type RunnableVersion } from './due-keys.js'
import { readAllShards } from '../schema/read-all-shards.js'
import { defineStatement, momentText, type Store } from '../statement.js'

const findUnattendedOfVersionStatement = defineStatement(
  'find_unattended_of_version',
  ({ keys }) => `
  SELECT k.id, k.scope, k.key, ${momentText('k.created_at')} AS created_at
    FROM ${keys} AS k
   WHERE k.status = 'running' AND k.pipeline = $1 AND k.version = $2::integer AND k.kind = 'pipeline'
     AND ${isDue({ hash: '$3::text', leaseBoundMs: '$4' })}
   ORDER BY k.created_at, k.id LIMIT ${DUE_KEYS_PER_LOOK}`,
)

/** The oldest due keys of one version: Citus cannot execute a part of a statement once for each version. */
export async function findUnattendedOfVersion(
  store: Store,
  { pipeline, version, definitionHash, leaseBoundMs }: RunnableVersion,
): Promise<DueKeys> {
  const values = [pipeline, version, definitionHash, leaseBoundMs]
  const rows = await readAllShards(findUnattendedOfVersionStatement, store, values, store.tables.keys)
  // Texts of one form, so that their order is that of the times.
  const inOrder = rows.toSorted((a, b) => compareTexts(a['created_at'] ?? '', b['created_at'] ?? ''))
  const keys = inOrder.slice(0, DUE_KEYS_PER_LOOK).map(readDueKey)
  return { keys, areAll: rows.length < DUE_KEYS_PER_LOOK }
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}
