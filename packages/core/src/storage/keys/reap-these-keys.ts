import { deleteExpired, HAS_EXPIRED, readReapedKey, REAPED, type ReapedKey } from './expired.js'
import { eachGivenKey, IS_THAT_KEY, type KeyName, namesOf } from './named-keys.js'
import { defineStatement, statusIs, type Store } from '../statement.js'

const reapTheseKeysStatement = defineStatement(
  'reap_these_keys',
  (tables) => `
  WITH expired AS (
    SELECT k.id, k.scope, k.key, k.expires_at FROM ${tables.keys} AS k, ${eachGivenKey(tables)}
     WHERE ${IS_THAT_KEY}${tables.ofOneShard('k')} AND ${statusIs('finished')} AND ${HAS_EXPIRED}
       FOR UPDATE OF k SKIP LOCKED
  ), gone AS (${deleteExpired(tables)}) ${REAPED}`,
)

/**
 * Deletes keys that were found before and are still finished, expired and not locked: either all of them, or none and an
 * error.
 */
export async function reapTheseKeys(store: Store, names: readonly KeyName[]): Promise<ReapedKey[]> {
  const { rows } = await reapTheseKeysStatement(store, namesOf(names))
  return rows.map(readReapedKey)
}
