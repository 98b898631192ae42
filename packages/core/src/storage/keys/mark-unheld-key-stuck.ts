import type { StuckReason } from '../../pipeline/outcome.js'
import type { KeyRow } from './key-row.js'
import { unheld } from './unheld.js'
import { defineStatement, type Store } from '../statement.js'

const markUnheldKeyStuckStatement = defineStatement(
  'mark_unheld_stuck',
  ({ keys }) => `
  WITH target AS (${unheld(keys, '$5', '$7')})
  UPDATE ${keys} AS k
     SET fence = k.fence + 1, holder = $3::uuid, status = 'stuck', stuck_reason = $4, lease_until = NULL,
         last_error = coalesce(k.last_error, $6), updated_at = clock_timestamp()
    FROM target WHERE k.id = target.id
  RETURNING k.last_error`,
)

/**
 * Used instead of a take-over when nobody may run the key any more. Returns the row as it is now, or null when it has
 * moved on, is held, or is locked. `lastError` is for a key whose holders died without a word.
 */
export async function markUnheldKeyStuck(
  store: Store,
  read: KeyRow,
  by: {
    readonly holder: string
    readonly reason: StuckReason
    readonly leaseBoundMs: number
    readonly lastError: string
  },
): Promise<KeyRow | null> {
  const { holder, reason, lastError, leaseBoundMs } = by
  const values = [read.id, read.fence, holder, reason, read.writtenBy, lastError, leaseBoundMs]
  const { rows } = await markUnheldKeyStuckStatement(store, values)
  return rows[0] === undefined ? null : { ...read, lastError: rows[0]['last_error'] ?? null }
}
