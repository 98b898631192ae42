import { defineStatement, epochMs, epochSeconds, NOW, type Store } from '../statement.js'

/** The reading that is stored. */
export interface StoredReading {
  /** How long ago a process last began to read, on the database's clock. */
  readonly takenAgoMs: number
  readonly nowMs: number
  /** Null until it has been read. */
  readonly readingJson: string | null
}

const findReadingStatement = defineStatement(
  'find_reading',
  ({ readings }) => `
  SELECT (${epochSeconds(NOW)} - ${epochSeconds('r.taken_at')}) * 1000 AS taken_ago_ms, ${epochMs(NOW)} AS now_ms, r.reading
    FROM ${readings} AS r WHERE r.id = 1`,
)

/** Returns null where nobody has ever read. */
export async function findReading(store: Store): Promise<StoredReading | null> {
  const { rows } = await findReadingStatement(store, [])
  const [row] = rows
  if (row === undefined) return null
  return {
    takenAgoMs: Number(row['taken_ago_ms']),
    nowMs: Number(row['now_ms']),
    readingJson: row['reading'] ?? null,
  }
}
