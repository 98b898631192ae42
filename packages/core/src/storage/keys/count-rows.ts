import { COUNT_LIMIT } from '../../limits.js'
import { defineStatement, epochMs, NOW, type Store } from '../statement.js'

/**
 * The first rows in the index's own order, so that the index is what is read, and read once: keys that have expired come
 * before all others that are finished, and the job that is due longest before all others that wait. One row more than the
 * limit means "or more".
 */
const first = (column: string, from: string, where: string): string =>
  `(SELECT ${column} FROM ${from} WHERE ${where} ORDER BY ${column} LIMIT ${COUNT_LIMIT + 1})`

const countRowsStatement = defineStatement(
  'count_rows',
  ({ keys, stagedJobs }) => `
  SELECT ${epochMs(NOW)} AS now_ms, k.finished, k.expired, w.waiting, d.dead,
         CASE WHEN w.first_due <= ${NOW} THEN extract(epoch FROM ${NOW} - w.first_due) * 1000 END AS oldest_due_ms,
         CASE WHEN k.first_expired <= ${NOW} THEN extract(epoch FROM ${NOW} - k.first_expired) * 1000 END AS oldest_expired_ms
    FROM (SELECT count(*) AS finished, count(*) FILTER (WHERE expires_at <= ${NOW}) AS expired,
                 min(expires_at) AS first_expired
            FROM ${first('expires_at', keys, `status = 'finished'`)} AS finished) AS k,
         (SELECT count(*) AS waiting, min(run_after) AS first_due
            FROM ${first('run_after', stagedJobs, 'dead_at IS NULL')} AS waiting) AS w,
         (SELECT count(*) AS dead FROM ${first('dead_at', stagedJobs, 'dead_at IS NOT NULL')} AS dead) AS d`,
)

/** Counts stop one above the limit. */
export interface RowCounts {
  readonly nowMs: number
  readonly finished: number
  readonly expired: number
  readonly waiting: number
  readonly dead: number
  readonly oldestDueMs: number | null
  readonly oldestExpiredMs: number | null
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
    oldestDueMs: wholeMs(row['oldest_due_ms']),
    oldestExpiredMs: wholeMs(row['oldest_expired_ms']),
  }
}

const wholeMs = (value: string | null | undefined): number | null =>
  value == null ? null : Math.round(Number(value))
