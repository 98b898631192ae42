import { HAS_EXPIRED } from './expired.js'
import { EACH_GIVEN_KEY, eachKeyOf, IS_THAT_KEY, type KeyName, namesOf } from './named-keys.js'
import { defineStatement, msInterval, NOW, statusIs, type Store } from '../statement.js'

const putOffKeysStatement = defineStatement(
  'put_off_keys',
  ({ keys }) => `
  WITH held AS (
    SELECT k.scope, k.key FROM ${keys} AS k, ${EACH_GIVEN_KEY}
     WHERE ${IS_THAT_KEY} AND ${statusIs('finished')} AND ${HAS_EXPIRED}
       FOR NO KEY UPDATE OF k SKIP LOCKED
  )
  UPDATE ${keys} AS k
     SET revision = k.revision + 1, expires_at = ${NOW}
         + least(greatest(${NOW} - k.updated_at, ${msInterval('$3')}), ${msInterval('$4')})
    FROM ${eachKeyOf('held')}
   WHERE ${IS_THAT_KEY} AND ${statusIs('finished')}`,
)

/**
 * Lets keys that cannot be deleted expire later: as much later as they are old, so that a million of them do not come up
 * every round. Meanwhile they continue to replay, which does no harm.
 */
export async function putOffKeys(
  store: Store,
  names: readonly KeyName[],
  by: { readonly leastMs: number; readonly mostMs: number },
): Promise<void> {
  await putOffKeysStatement(store, [...namesOf(names), by.leastMs, by.mostMs])
}
