import { FOR_A_COMPLETER, unfinished } from './unfinished.js'
import { defineStatement, msInterval, NOW, type Store } from '../statement.js'

/** Since when a key has been tried: when a person unsticks it, its time starts again. */
const TRIED_SINCE = 'coalesce(k.unstuck_at, k.created_at)'

const findRetriedStatement = defineStatement(
  'find_retried',
  (tables) => `
  SELECT k.scope, k.key, count(*) OVER () AS count,
         extract(epoch FROM ${NOW} - ${TRIED_SINCE}) * 1000 AS since_ms
    FROM ${unfinished(tables, 'running', FOR_A_COMPLETER)} AS k
   WHERE (k.retries > 0 OR k.attempts > 1) AND ${TRIED_SINCE} <= (${NOW} - ${msInterval('$1')})
   ORDER BY ${TRIED_SINCE} LIMIT 1`,
)

/**
 * Among the running keys that have been tried more than once and for this long: the one tried for longest, and how many
 * there are.
 */
export async function findRetried(
  store: Store,
  forMs: number,
): Promise<{
  readonly scope: string
  readonly key: string
  readonly sinceMs: number
  readonly count: number
} | null> {
  const { rows } = await findRetriedStatement(store, [forMs])
  const row = rows[0]
  if (row === undefined) return null
  return {
    scope: row['scope'] ?? '',
    key: row['key'] ?? '',
    sinceMs: Math.round(Number(row['since_ms'])),
    count: Number(row['count']),
  }
}
