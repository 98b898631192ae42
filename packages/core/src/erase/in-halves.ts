import { isAboutRows, sqlStateOf } from '../driver/postgres-error.js'
import type { KeptBecause } from './erasure.js'
import type { KeptList } from './kept-list.js'

/** lock_not_available */
const LOCKED = '55P03'

/** foreign_key_violation, and restrict_violation; not_null_violation, where a foreign key says SET NULL. */
const REFERRED_TO = new Set(['23503', '23001', '23502'])

/** Our own statement found that somebody else has some of the rows. */
const MOVED = '22P02'

/**
 * Acts on rows. Where that fails because of one of them, halves them until the rows to blame stand alone: few statements where few
 * are to blame. Those are left, and `keep` is told why.
 */
export async function inHalves<Row>(
  rows: readonly Row[],
  kept: KeptList,
  act: (rows: readonly Row[]) => Promise<void>,
  keep: (row: Row, why: KeptBecause) => void,
): Promise<void> {
  if (rows.length === 0) return
  try {
    await act(rows)
    return
  } catch (error) {
    if (!isAboutRows(error)) throw error
    const why = whyOf(error)
    if (sqlStateOf(error) === LOCKED) kept.waitedForLock()
    if (rows.length === 1 || (why === 'locked' && kept.isOutOfPatience)) {
      for (const row of rows) keep(row, why)
      return
    }
  }
  const middle = Math.ceil(rows.length / 2)
  await inHalves(rows.slice(0, middle), kept, act, keep)
  await inHalves(rows.slice(middle), kept, act, keep)
}

/** What is neither a lock nor a change is a constraint or a trigger of the application. */
function whyOf(error: unknown): KeptBecause {
  const sqlState = sqlStateOf(error) ?? ''
  if (REFERRED_TO.has(sqlState)) return 'referenced'
  return sqlState === LOCKED || sqlState === MOVED || sqlState.startsWith('40') ? 'locked' : 'referenced'
}
