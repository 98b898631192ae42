import { COUNT_LIMIT } from '../../limits.js'
import { defineStatement, epochMs, NOW, type Store } from '../statement.js'

/** Counts in the index's own order, so that the index is what is read. One more than the limit means "or more". */
const counted = (from: string, where: string, order: string): string =>
  `(SELECT count(*) FROM (SELECT 1 FROM ${from} WHERE ${where} ORDER BY ${order} LIMIT ${COUNT_LIMIT + 1}) AS counted)`

const countRowsStatement = defineStatement(
  'count_rows',
  ({ keys, stagedJobs }) => `
  SELECT ${epochMs(NOW)} AS now_ms,
         ${counted(keys, `status = 'finished'`, 'expires_at')} AS finished,
         ${counted(keys, `status = 'finished' AND expires_at <= ${NOW}`, 'expires_at')} AS expired,
         ${counted(stagedJobs, 'dead_at IS NULL', 'run_after')} AS waiting,
         ${counted(stagedJobs, 'dead_at IS NOT NULL', 'dead_at')} AS dead,
         (SELECT extract(epoch FROM ${NOW} - j.run_after) * 1000 FROM ${stagedJobs} AS j
           WHERE j.dead_at IS NULL AND j.run_after <= ${NOW} ORDER BY j.run_after LIMIT 1) AS oldest_due_ms`,
)

/** Counts stop one above the limit. */
export interface RowCounts {
  readonly nowMs: number
  readonly finished: number
  readonly expired: number
  readonly waiting: number
  readonly dead: number
  readonly oldestDueMs: number | null
}

/** Counts finished and expired keys, and jobs that wait or are dead. */
export async function countRows(store: Store): Promise<RowCounts> {
  const { rows } = await countRowsStatement(store, [])
  const row = rows[0] ?? {}
  return {
    nowMs: Number(row['now_ms']),
    finished: Number(row['finished']),
    expired: Number(row['expired']),
    waiting: Number(row['waiting']),
    dead: Number(row['dead']),
    oldestDueMs: row['oldest_due_ms'] == null ? null : Math.round(Number(row['oldest_due_ms'])),
  }
}
