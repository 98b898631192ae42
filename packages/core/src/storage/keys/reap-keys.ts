import { deleteExpired, expired, readReapedKey, REAPED, type ReapedKey } from './expired.js'
import { defineStatement, type Store } from '../statement.js'

const reapKeysStatement = defineStatement(
  'reap_keys',
  (tables) => `
  WITH expired AS (${expired('k.id, k.scope, k.key, k.expires_at, k.stored_bytes', tables)} FOR UPDATE OF k SKIP LOCKED),
       gone AS (${deleteExpired(tables)}) ${REAPED}`,
)

/**
 * Deletes a batch of expired keys, starting with those that expired first. Rows that somebody has locked are left for the
 * next time; one that cannot be deleted fails the whole batch. Those whose bytes are counted are found, and not deleted.
 */
export async function reapKeys(store: Store, limit: number, fromMs: number | null): Promise<ReapedKey[]> {
  const { rows } = await reapKeysStatement(store, [limit, fromMs])
  return rows.map(readReapedKey)
}
