import type { PawlError } from '../../errors.js'
import { Opening } from '../sealed-values.js'
import { epochMs } from '../statement.js'
import type { Tables } from '../tables.js'

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
  /** Why its payload or last error could not be opened; null if they could. */
  readonly sealed: PawlError | null
}

export const JOB_COLUMNS = `j.id, j.scope, j.name, j.key_id, j.payload, j.attempts, ${epochMs('j.run_after')} AS run_after_ms,
       j.last_error, ${epochMs('j.created_at')} AS created_ms, ${epochMs('j.dead_at')} AS dead_ms`

export function readJobRow(row: TextRow, tables: Tables): JobRow {
  const [id, scope] = [row['id'] ?? '', row['scope'] ?? '']
  const opening = new Opening(tables, { id, scope })
  const opened = {
    payloadJson: opening.json('payload', row['payload'] ?? 'null', 'null'),
    lastError: opening.text('last_error', row['last_error'] ?? null),
  }
  return {
    ...opened,
    sealed: opening.failed,
    id,
    name: row['name'] ?? '',
    keyId: row['key_id'] ?? '',
    attempts: Number(row['attempts']),
    runAfterMs: Number(row['run_after_ms']),
    createdMs: Number(row['created_ms']),
    deadMs: row['dead_ms'] == null ? null : Number(row['dead_ms']),
  }
}
