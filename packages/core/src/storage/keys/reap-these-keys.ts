import { freeingBytes } from '../usage/stored-bytes.js'
import {
  deleteCounted,
  deleteExpired,
  type ExpiredKey,
  HAS_EXPIRED,
  readReapedKey,
  REAPED,
  type ReapedKey,
} from './expired.js'
import { eachGivenKey, IS_THAT_KEY, namesOf } from './named-keys.js'
import { defineStatement, statusIs, type Store } from '../statement.js'
import type { Tables } from '../tables.js'

const those = (tables: Tables): string => `
  WITH expired AS (
    SELECT k.id, k.scope, k.key, k.expires_at, k.stored_bytes FROM ${tables.keys} AS k, ${eachGivenKey(tables)}
     WHERE ${IS_THAT_KEY}${tables.ofOneShard('k')} AND ${statusIs('finished')} AND ${HAS_EXPIRED}
       FOR UPDATE OF k SKIP LOCKED
  )`

const reapTheseKeysStatement = defineStatement(
  'reap_these_keys',
  (tables) => `${those(tables)}, gone AS (${deleteExpired(tables)}) ${REAPED}`,
)

const reapCountedKeysStatement = defineStatement(
  'reap_these_keys',
  (tables) => `${those(tables)}, gone AS (${deleteCounted(tables)}
  ), freed AS (${freeingBytes(tables, 'gone')}) ${REAPED}`,
)

/**
 * Deletes keys that were found before and are still finished, expired and not locked: either all of them, or none and an
 * error.
 */
export async function reapTheseKeys(store: Store, keys: readonly ExpiredKey[]): Promise<ReapedKey[]> {
  const reap = keys.some(({ isCounted }) => isCounted) ? reapCountedKeysStatement : reapTheseKeysStatement
  const { rows } = await reap(store, namesOf(keys))
  return rows.map(readReapedKey)
}
