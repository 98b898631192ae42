import type { StuckReason } from '../../pipeline/outcome.js'
import { HELD, type Hold } from './hold.js'
import type { Intent } from './key-row.js'
import { boundedBy, defineStatement, statusIs, type Store } from '../statement.js'

const markKeyStuckStatement = defineStatement(
  'mark_stuck',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET status = 'stuck', stuck_reason = $4, lease_until = NULL, intent = $5::json,
         last_error = coalesce($6, k.last_error), updated_at = clock_timestamp()
    FROM ${boundedBy('$7')}
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
    readonly lockTimeoutMs: number
  },
): Promise<boolean> {
  const { rows } = await markKeyStuckStatement(store, [
    hold.id,
    hold.fence,
    hold.holder,
    stuck.reason,
    stuck.intent === null ? null : JSON.stringify(stuck.intent),
    stuck.lastError,
    String(stuck.lockTimeoutMs),
    hold.recoveryPoint,
  ])
  return rows.length === 1
}
