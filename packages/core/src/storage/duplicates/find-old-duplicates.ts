import { readAllShards } from '../schema/read-all-shards.js'
import { defineStatement, epochMs, msInterval, NOW, type Store } from '../statement.js'

/** The name of a row of counts. */
export interface DuplicateRow {
  readonly scope: string
  readonly minuteMs: number
  readonly pipeline: string
}

const findOldDuplicatesStatement = defineStatement(
  'find_old_duplicates',
  ({ duplicates }) => `
  SELECT d.scope, ${epochMs('d.minute')} AS minute_ms, d.pipeline FROM ${duplicates} AS d
   WHERE d.minute <= (${NOW} - ${msInterval('$2')}) ORDER BY d.minute LIMIT $1::integer`,
)

/** Finds a batch of counts that have been kept for long enough. It locks nothing. */
export async function findOldDuplicates(
  store: Store,
  limit: number,
  retentionMs: number,
): Promise<DuplicateRow[]> {
  const { duplicates } = store.tables
  const rows = await readAllShards(findOldDuplicatesStatement, store, [limit, retentionMs], duplicates)
  return rows
    .map((row) => ({
      scope: row['scope'] ?? '',
      minuteMs: Number(row['minute_ms']),
      pipeline: row['pipeline'] ?? '',
    }))
    .toSorted((a, b) => a.minuteMs - b.minuteMs)
    .slice(0, limit)
}
