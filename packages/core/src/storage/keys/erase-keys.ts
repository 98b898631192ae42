import { raiseCacheEpoch } from '../cache/raise-cache-epoch.js'
import { defineStatement, eachGiven, statusIs, type Store } from '../statement.js'

const IS_THAT_ROW = 'k.scope = $1 AND k.key = each.key AND k.id = each.id'

const eraseKeysStatement = defineStatement(
  'erase_keys',
  (tables) => `
  WITH free AS (
    SELECT k.key, k.id FROM ${tables.keys} AS k, ${eachGiven(tables, { key: '$2::text[]', id: '$3::uuid[]' })}
     WHERE ${IS_THAT_ROW} AND ${statusIs('finished')}
       FOR UPDATE OF k SKIP LOCKED
  )
  DELETE FROM ${tables.keys} AS k USING free AS each WHERE ${IS_THAT_ROW} AND ${statusIs('finished')}
  RETURNING k.id`,
)

/**
 * Deletes those of these keys of one scope that are still finished and not locked, as the very rows that were found. Returns their
 * ids. One that cannot be deleted fails all of them. What was cached of them is of no use any more.
 */
export async function eraseKeys(
  { session, tables }: Store,
  scope: string,
  keys: readonly { readonly id: string; readonly key: string }[],
): Promise<string[]> {
  const values = [scope, keys.map(({ key }) => key), keys.map(({ id }) => id)]
  const [gone] = await session.runEach([eraseKeysStatement.bind(tables, values), ...raiseCacheEpoch(tables)])
  return gone?.rows.map((row) => row['id'] ?? '') ?? []
}
