import type { StuckReason } from '../../pipeline/outcome.js'
import { HELD, heldBy, type Hold, WRITTEN } from './hold.js'
import type { Intent } from './key-row.js'
import { sealIntent, sealText } from '../sealed-values.js'
import { defineStatement, NOW, statusIs, type Store } from '../statement.js'

const markKeyStuckStatement = defineStatement(
  'mark_stuck',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET status = 'stuck', stuck_reason = $5, lease_until = NULL, intent = $6::json,
         last_error = coalesce($7, k.last_error), updated_at = ${NOW}, ${WRITTEN}
   WHERE ${HELD} AND ${statusIs('running')} AND k.recovery_point = $8
  RETURNING k.id`,
)

/** Hands the key to a person. Returns false when we were fenced off. */
export async function markKeyStuck(
  store: Store,
  hold: Hold,
  stuck: {
    readonly reason: StuckReason
    readonly intent: Intent | null
    readonly lastError: string | null
  },
): Promise<boolean> {
  const { rows } = await markKeyStuckStatement(store, [
    ...heldBy(hold),
    stuck.reason,
    sealIntent(store.tables, hold, stuck.intent),
    sealText(store.tables, hold, 'last_error', stuck.lastError),
    hold.recoveryPoint,
  ])
  return rows.length === 1
}
