import type { KeyRow } from './key-row.js'
import { defineStatement, epochMs, NOW, type Store } from '../statement.js'

/** How far a key has come. Times are milliseconds on the database's clock. */
export interface KeyProgress {
  readonly status: KeyRow['status']
  readonly leaseUntilMs: number | null
  readonly runAfterMs: number | null
  readonly updatedMs: number
  readonly nowMs: number
}

/** Few and small columns: it is asked again and again while requests wait for the key. */
const findProgressStatement = defineStatement(
  'find_progress',
  ({ keys }) => `
  SELECT k.status, ${epochMs('k.lease_until')} AS lease_until_ms, ${epochMs('k.run_after')} AS run_after_ms,
         ${epochMs('k.updated_at')} AS updated_ms, ${epochMs(NOW)} AS now_ms
    FROM ${keys} AS k WHERE k.scope = $1 AND k.key = $2`,
)

/** Returns null when there is no such key. */
export async function findProgress(store: Store, scope: string, key: string): Promise<KeyProgress | null> {
  const { rows } = await findProgressStatement(store, [scope, key], 'read')
  const [row] = rows
  if (row === undefined) return null
  const msOf = (column: string): number | null => (row[column] == null ? null : Number(row[column]))
  return {
    status: row['status'] as KeyRow['status'],
    leaseUntilMs: msOf('lease_until_ms'),
    runAfterMs: msOf('run_after_ms'),
    updatedMs: Number(row['updated_ms']),
    nowMs: Number(row['now_ms']),
  }
}
