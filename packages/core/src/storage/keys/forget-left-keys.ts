import { type AtomicVersion, isLeft } from './forget-atomic-keys.js'
import { eachGivenKey, IS_THAT_KEY, type KeyName, namesOf } from './named-keys.js'
import { defineStatement, statusIs, type Store } from '../statement.js'

const forgetLeftKeysStatement = defineStatement(
  'forget_left_keys',
  (tables) => `
  WITH left_behind AS (
    SELECT k.scope, k.key FROM ${tables.keys} AS k, ${eachGivenKey(tables)}
     WHERE ${IS_THAT_KEY}${tables.ofOneShard('k')} AND ${statusIs('running')} AND k.kind = 'atomic'
       AND ${isLeft({ hash: '$3', afterMs: '$4', leaseBoundMs: '$5' })}
       FOR UPDATE OF k SKIP LOCKED
  )
  DELETE FROM ${tables.keys} AS k USING left_behind AS each WHERE ${IS_THAT_KEY}${tables.ofOneShard('k')}
  RETURNING k.id`,
)

/** Deletes those of these keys that nobody has come back for since; returns their ids. Over servers, all of them are in one shard. */
export async function forgetLeftKeys(
  store: Store,
  names: readonly KeyName[],
  { definitionHash, forgetAfterMs, leaseBoundMs }: AtomicVersion,
): Promise<string[]> {
  const values = [...namesOf(names), definitionHash, forgetAfterMs, leaseBoundMs]
  const { rows } = await forgetLeftKeysStatement(store, values)
  return rows.map((row) => row['id'] ?? '')
}
