import { HAS_EXPIRED } from './expired.js'
import { eachGivenKey, eachKeyOf, IS_THAT_KEY, type KeyName, namesOf } from './named-keys.js'
import { CLOCK, defineStatement, epochSeconds, momentIn, statusIs, type Store } from '../statement.js'

const putOffKeysStatement = defineStatement(
  'put_off_keys',
  (tables) => `
  WITH held AS (
    SELECT k.scope, k.key FROM ${tables.keys} AS k, ${eachGivenKey(tables)}
     WHERE ${IS_THAT_KEY}${tables.ofOneShard('k')} AND ${statusIs('finished')} AND ${HAS_EXPIRED}
       FOR NO KEY UPDATE OF k SKIP LOCKED
  )
  UPDATE ${tables.keys} AS k
     SET revision = k.revision + 1,
         expires_at = ${momentIn(`least(greatest(clock.seconds - ${epochSeconds('k.updated_at')}, $3::double precision / 1000), $4::double precision / 1000)`)}
    FROM ${eachKeyOf(tables, 'held')}, ${CLOCK}
   WHERE ${IS_THAT_KEY}${tables.ofOneShard('k')} AND ${statusIs('finished')}`,
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
