import { type AtomicVersion, isLeft } from './forget-atomic-keys.js'
import type { KeyName } from './named-keys.js'
import { readAllShards } from '../schema/read-all-shards.js'
import { defineStatement, type Store } from '../statement.js'

const findLeftKeysStatement = defineStatement(
  'find_left_keys',
  ({ keys }) => `
  SELECT k.scope, k.key FROM ${keys} AS k
   WHERE k.status = 'running' AND k.pipeline = $1 AND k.version = $2::integer AND k.kind = 'atomic'
     AND ${isLeft({ hash: '$3', afterMs: '$4', leaseBoundMs: '$5' })}
   ORDER BY k.created_at LIMIT $6::integer`,
)

/** Finds keys of an atomic handler that nobody came back for. It locks nothing. */
export async function findLeftKeys(store: Store, of: AtomicVersion, limit: number): Promise<KeyName[]> {
  const values = [of.pipeline, of.version, of.definitionHash, of.forgetAfterMs, of.leaseBoundMs, limit]
  const rows = await readAllShards(findLeftKeysStatement, store, values, store.tables.keys)
  return rows.slice(0, limit).map((row) => ({ scope: row['scope'] ?? '', key: row['key'] ?? '' }))
}
