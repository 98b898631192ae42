import { deleteExpired, HAS_EXPIRED, readReapedKey, REAPED, type ReapedKey } from './expired.js'
import { defineStatement, type Store } from '../statement.js'

const reapTheseKeysStatement = defineStatement(
  'reap_these_keys',
  ({ keys }) => `
  WITH expired AS (
    SELECT id, expires_at FROM ${keys}
     WHERE id = ANY ($1::uuid[]) AND status = 'finished' AND ${HAS_EXPIRED}
       FOR UPDATE SKIP LOCKED
  ), gone AS (${deleteExpired(keys)}) ${REAPED}`,
)

/**
 * Deletes keys that were found before and are still finished, expired and not locked: either all of them, or none and an
 * error.
 */
export async function reapTheseKeys(store: Store, keyIds: readonly string[]): Promise<ReapedKey[]> {
  const { rows } = await reapTheseKeysStatement(store, [keyIds])
  return rows.map(readReapedKey)
}
