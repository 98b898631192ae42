import { HAS_EXPIRED, oneOf } from './expired.js'
import { defineStatement, msInterval, NOW, type Store } from '../statement.js'

const putOffKeysStatement = defineStatement(
  'put_off_keys',
  ({ keys }) => `
  WITH held AS (
    SELECT id FROM ${keys}
     WHERE id = ANY ($1::uuid[]) AND status = 'finished' AND ${HAS_EXPIRED}
       FOR NO KEY UPDATE SKIP LOCKED
  )
  UPDATE ${keys} AS k
     SET revision = k.revision + 1, expires_at = ${NOW}
         + least(greatest(${NOW} - k.updated_at, ${msInterval('$2')}), ${msInterval('$3')})
   WHERE k.id ${oneOf('held')} AND k.status = 'finished'`,
)

/**
 * Lets keys that cannot be deleted expire later: as much later as they are old, so that a million of them do not come up
 * every round. Meanwhile they continue to replay, which does no harm.
 */
export async function putOffKeys(
  store: Store,
  keyIds: readonly string[],
  by: { readonly leastMs: number; readonly mostMs: number },
): Promise<void> {
  await putOffKeysStatement(store, [keyIds, by.leastMs, by.mostMs])
}
