import { expired, type ExpiredKey, readExpiredKey } from './expired.js'
import { readAllShards } from '../schema/read-all-shards.js'
import { defineStatement, epochMs, type Store } from '../statement.js'

const findExpiredKeysStatement = defineStatement('find_expired_keys', (tables) =>
  expired(
    `k.id, k.scope, k.key, ${epochMs('k.expires_at')} AS expires_ms, k.stored_bytes > 0 AS is_counted`,
    tables,
  ),
)

/** Finds the keys that the same batch would delete, and maybe some that are locked. It locks nothing. */
export async function findExpiredKeys(
  store: Store,
  limit: number,
  fromMs: number | null,
): Promise<ExpiredKey[]> {
  const found = await readAllShards(findExpiredKeysStatement, store, [limit, fromMs], store.tables.keys)
  return found
    .map(readExpiredKey)
    .toSorted((a, b) => a.expiresMs - b.expiresMs)
    .slice(0, limit)
}
