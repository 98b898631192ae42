import { deleteExpired, expired, readReapedKey, REAPED, type ReapedKey } from './expired.js'
import { defineStatement, type Store } from '../statement.js'

const reapKeysStatement = defineStatement(
  'reap_keys',
  ({ keys }) => `WITH expired AS (${expired(keys)}), gone AS (${deleteExpired(keys)}) ${REAPED}`,
)

/**
 * Deletes a batch of expired keys, starting with those that expired first. Rows that somebody has locked are left for the
 * next time; one that cannot be deleted fails the whole batch.
 */
export async function reapKeys(store: Store, limit: number, fromMs: number | null): Promise<ReapedKey[]> {
  const { rows } = await reapKeysStatement(store, [limit, fromMs])
  return rows.map(readReapedKey)
}
