import { expired, type ExpiredKey, readExpiredKey } from './expired.js'
import { defineStatement, epochMs, type Store } from '../statement.js'

const findExpiredKeysStatement = defineStatement(
  'find_expired_keys',
  ({ keys }) => `WITH expired AS (${expired(keys)})
  SELECT id, scope, key, ${epochMs('expires_at')} AS expires_ms FROM expired ORDER BY expires_at`,
)

/** Finds the keys that the same batch would delete. */
export async function findExpiredKeys(
  store: Store,
  limit: number,
  fromMs: number | null,
): Promise<ExpiredKey[]> {
  const { rows } = await findExpiredKeysStatement(store, [limit, fromMs])
  return rows.map(readExpiredKey)
}
