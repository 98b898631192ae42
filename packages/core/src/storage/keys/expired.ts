import { eachKeyOf, IS_THAT_KEY, type KeyName } from './named-keys.js'
import { epochMs, NOW, statusIs } from '../statement.js'
import type { Tables } from '../tables.js'

/** A key that was found finished and expired. */
export interface ExpiredKey extends KeyName {
  readonly id: string
  readonly expiresMs: number
  /** Whether its bytes are counted. */
  readonly isCounted: boolean
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

/** Finished keys past their expiry, through the index that holds only finished ones. `k` is the key's table. */
export const expired = (columns: string, { keys }: Tables): string => `
    SELECT ${columns} FROM ${keys} AS k
     WHERE k.status = 'finished' AND k.expires_at <= ${NOW} AND ${from('k.expires_at', '$2')}
     ORDER BY k.expires_at LIMIT $1::integer`

/** For keys that are named: so written that the planner does not go through all expired keys by their index. */
export const HAS_EXPIRED = `(k.expires_at + interval '0') <= ${NOW}`

/** Repeats what must be true of a row that is deleted. */
const deleteThose = (tables: Tables): string => `
    DELETE FROM ${tables.keys} AS k USING ${eachKeyOf(tables, 'expired')}
     WHERE ${IS_THAT_KEY}${tables.ofOneShard('k')} AND ${statusIs('finished')}`

/** Leaves those whose bytes are counted: to take them off, a statement needs more rights. */
export const deleteExpired = (tables: Tables): string => `${deleteThose(tables)} AND k.stored_bytes = 0
    RETURNING k.scope, k.key`

/** Deletes those as well. */
export const deleteCounted = (tables: Tables): string => `${deleteThose(tables)}
    RETURNING k.scope, k.key, k.pipeline, k.stored_bytes`

export const REAPED = `
  SELECT expired.id, expired.scope, expired.key, ${epochMs('expired.expires_at')} AS expires_ms,
         expired.stored_bytes > 0 AS is_counted, gone.key IS NOT NULL AS deleted
    FROM expired LEFT JOIN gone ON gone.scope = expired.scope AND gone.key = expired.key
   ORDER BY expired.expires_at`

type Row = Readonly<Record<string, string | null>>

export function readExpiredKey(row: Row): ExpiredKey {
  return {
    id: row['id'] ?? '',
    scope: row['scope'] ?? '',
    key: row['key'] ?? '',
    expiresMs: Number(row['expires_ms']),
    isCounted: row['is_counted'] === 't',
  }
}

export function readReapedKey(row: Row): ReapedKey {
  return { ...readExpiredKey(row), deleted: row['deleted'] === 't' }
}
