import type { StuckReason } from '../../pipeline/outcome.js'
import { WRITTEN } from './hold.js'
import type { KeyRow } from './key-row.js'
import { unheld, unheldValues } from './unheld.js'
import { Opening, sealText } from '../sealed-values.js'
import { defineStatement, NOW, type Store } from '../statement.js'

const markUnheldKeyStuckStatement = defineStatement(
  'mark_unheld_stuck',
  (tables) => `
  WITH target AS (${unheld(tables)})
  UPDATE ${tables.keys} AS k
     SET fence = k.fence + 1, holder = $8::uuid, status = 'stuck', stuck_reason = $9, lease_until = NULL,
         last_error = coalesce(k.last_error, $10), updated_at = ${NOW}, ${WRITTEN}
    FROM target WHERE k.scope = $1 AND k.key = $2 AND k.key = target.key
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
  const sealed = sealText(store.tables, read, 'last_error', lastError)
  const values = [...unheldValues(read, leaseBoundMs), holder, reason, sealed]
  const { rows } = await markUnheldKeyStuckStatement(store, values)
  if (rows[0] === undefined) return null
  const opening = new Opening(store.tables, read)
  return { ...read, lastError: opening.text('last_error', rows[0]['last_error'] ?? null) }
}
