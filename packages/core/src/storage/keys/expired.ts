import { epochMs, NOW } from '../statement.js'

/** A key that was found finished and expired. */
export interface ExpiredKey {
  readonly id: string
  readonly expiresMs: number
}

/** An expired key and what became of it. If it was not deleted, something in the application keeps it, without an error. */
export interface ReapedKey extends ExpiredKey {
  readonly deleted: boolean
}

/**
 * Starts where the last batch of this round ended. The dead index entries of rows that were deleted before stay as long
 * as any older transaction is open, such as a backup: without this, every batch would read all of them again.
 */
export const from = (column: string, parameter: string): string =>
  `${column} >= coalesce(to_timestamp(${parameter}::double precision / 1000), '-infinity')`

/** Finished keys past their expiry, through the index that holds only finished ones. */
export const expired = (keys: string): string => `
    SELECT id, expires_at FROM ${keys}
     WHERE status = 'finished' AND expires_at <= ${NOW} AND ${from('expires_at', '$2')}
     ORDER BY expires_at LIMIT $1::integer
       FOR UPDATE SKIP LOCKED`

/**
 * So written that the planner does not go through all expired keys by their index,
 * for keys that are named by their ids.
 */
export const HAS_EXPIRED = `(expires_at + interval '0') <= ${NOW}`

/** An array, not a join: however small the table and large the batch, the rows are fetched by the primary key. */
export const oneOf = (found: string): string => `= ANY (ARRAY(SELECT id FROM ${found}))`

/** Repeats what must be true of a row that is deleted. */
export const deleteExpired = (keys: string): string => `
    DELETE FROM ${keys} AS k
     WHERE k.id ${oneOf('expired')} AND k.status = 'finished'
    RETURNING k.id`

export const REAPED = `
  SELECT expired.id, ${epochMs('expired.expires_at')} AS expires_ms, gone.id IS NOT NULL AS deleted
    FROM expired LEFT JOIN gone ON gone.id = expired.id ORDER BY expired.expires_at`

export function readReapedKey(row: Readonly<Record<string, string | null>>): ReapedKey {
  return { id: row['id'] ?? '', expiresMs: Number(row['expires_ms']), deleted: row['deleted'] === 't' }
}
