import type { StuckReason } from '../../pipeline/outcome.js'
import { unfinished } from './unfinished.js'
import { defineStatement, type Store } from '../statement.js'

const groupStuckStatement = defineStatement(
  'group_stuck',
  (tables) => `
  SELECT k.stuck_reason, count(*) AS count FROM ${unfinished(tables, 'stuck')} AS k
   GROUP BY k.stuck_reason ORDER BY count(*) DESC, k.stuck_reason`,
)

/** Counts the stuck keys for each reason. */
export async function groupStuck(
  store: Store,
): Promise<{ readonly reason: StuckReason; readonly count: number }[]> {
  const { rows } = await groupStuckStatement(store, [])
  return rows.map((row) => ({ reason: row['stuck_reason'] as StuckReason, count: Number(row['count']) }))
}
