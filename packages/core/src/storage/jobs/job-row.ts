import { epochMs } from '../statement.js'

type TextRow = Readonly<Record<string, string | null>>

/** A job's row. Times are milliseconds on the database's clock. */
export interface JobRow {
  readonly id: string
  readonly name: string
  readonly keyId: string
  readonly payloadJson: string
  readonly attempts: number
  readonly runAfterMs: number
  readonly lastError: string | null
  readonly createdMs: number
  readonly deadMs: number | null
}

export const JOB_COLUMNS = `j.id, j.name, j.key_id, j.payload, j.attempts, ${epochMs('j.run_after')} AS run_after_ms,
       j.last_error, ${epochMs('j.created_at')} AS created_ms, ${epochMs('j.dead_at')} AS dead_ms`

export function readJobRow(row: TextRow): JobRow {
  return {
    id: row['id'] ?? '',
    name: row['name'] ?? '',
    keyId: row['key_id'] ?? '',
    payloadJson: row['payload'] ?? 'null',
    attempts: Number(row['attempts']),
    runAfterMs: Number(row['run_after_ms']),
    lastError: row['last_error'] ?? null,
    createdMs: Number(row['created_ms']),
    deadMs: row['dead_ms'] == null ? null : Number(row['dead_ms']),
  }
}
