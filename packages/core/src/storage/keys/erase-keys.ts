import { raiseCacheEpoch } from '../cache/raise-cache-epoch.js'
import { defineStatement, eachGiven, statusIs, type Store } from '../statement.js'
import type { Tables } from '../tables.js'
import { freeingBytes } from '../usage/stored-bytes.js'
import { type ErasedScope, type KeyToErase, wasThere } from './find-keys-to-erase.js'

const IS_THAT_ROW = 'k.scope = $1 AND k.key = each.key AND k.id = each.id'

const free = (tables: Tables): string => `
  WITH free AS (
    SELECT k.key, k.id FROM ${tables.keys} AS k, ${eachGiven(tables, { key: '$2::text[]', id: '$3::uuid[]' })}
     WHERE ${IS_THAT_ROW} AND ${statusIs('finished')} AND ${wasThere('k.updated_at', '$4')}
       FOR UPDATE OF k SKIP LOCKED
  )`

const erase = ({ keys }: Tables): string => `
  DELETE FROM ${keys} AS k USING free AS each WHERE ${IS_THAT_ROW} AND ${statusIs('finished')}`

/** Leaves those whose bytes are counted. */
const eraseKeysStatement = defineStatement(
  'erase_keys',
  (tables) => `${free(tables)}${erase(tables)} AND k.stored_bytes = 0
  RETURNING k.id`,
)

const eraseCountedKeysStatement = defineStatement(
  'erase_keys',
  (tables) => `${free(tables)}, gone AS (${erase(tables)}
  RETURNING k.id, k.scope, k.pipeline, k.stored_bytes
  ), freed AS (${freeingBytes(tables, 'gone')})
  SELECT id FROM gone`,
)

/**
 * Deletes those of these keys of one scope that are still finished, unchanged since the erasure began, and not locked, as the very
 * rows that were found. Returns their ids. One that cannot be deleted fails all of them. What was cached of them is of no use any more.
 */
export async function eraseKeys(
  { session, tables }: Store,
  { scope, beganMs }: Pick<ErasedScope, 'scope' | 'beganMs'>,
  keys: readonly Pick<KeyToErase, 'id' | 'key' | 'isCounted'>[],
): Promise<string[]> {
  const values = [scope, keys.map(({ key }) => key), keys.map(({ id }) => id), beganMs]
  const statement = keys.some(({ isCounted }) => isCounted) ? eraseCountedKeysStatement : eraseKeysStatement
  const [gone] = await session.runEach([statement.bind(tables, values), ...raiseCacheEpoch(tables)])
  return gone?.rows.map((row) => row['id'] ?? '') ?? []
}
