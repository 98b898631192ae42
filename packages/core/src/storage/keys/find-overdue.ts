import { CONDITION, FOR_A_COMPLETER, unfinished } from './unfinished.js'
import { defineStatement, msInterval, NOW, type Store } from '../statement.js'

/** A key cannot have become due before it was last written. */
const DUE_SINCE = 'greatest(k.lease_until, k.run_after, k.updated_at)'

const findOverdueStatement = defineStatement(
  'find_overdue',
  (tables) => `
  SELECT k.scope, k.key, count(*) OVER () AS count,
         extract(epoch FROM ${NOW} - ${DUE_SINCE}) * 1000 AS since_ms
    FROM ${unfinished(tables, 'running', FOR_A_COMPLETER)} AS k
   WHERE ${CONDITION} = 'unattended' AND ${DUE_SINCE} <= (${NOW} - ${msInterval('$1')})
   ORDER BY ${DUE_SINCE} LIMIT 1`,
)

/** Returns the key that has been due longest, if for at least `forMs`, and how many such keys there are. */
export async function findOverdue(
  store: Store,
  forMs: number,
): Promise<{
  readonly scope: string
  readonly key: string
  readonly sinceMs: number
  readonly count: number
} | null> {
  const { rows } = await findOverdueStatement(store, [forMs])
  const row = rows[0]
  if (row === undefined) return null
  return {
    scope: row['scope'] ?? '',
    key: row['key'] ?? '',
    sinceMs: Math.round(Number(row['since_ms'])),
    count: Number(row['count']),
  }
}
