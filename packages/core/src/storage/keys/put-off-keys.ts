import { oneOf } from './expired.js'
import { defineStatement, msInterval, type Store } from '../statement.js'

const putOffKeysStatement = defineStatement(
  'put_off_keys',
  ({ keys }) => `
  WITH held AS (
    SELECT id FROM ${keys}
     WHERE id = ANY ($1::uuid[]) AND status = 'finished' AND expires_at <= clock_timestamp()
       FOR NO KEY UPDATE SKIP LOCKED
  )
  UPDATE ${keys} AS k
     SET expires_at = clock_timestamp()
         + least(greatest(clock_timestamp() - k.updated_at, ${msInterval('$2')}), ${msInterval('$3')})
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
