import type { Note } from '../interventions/note.js'
import { KEY_COLUMNS, type KeyRow } from './key-row.js'
import { boundedBy } from '../statement.js'
import type { Tables } from '../tables.js'

/** A change to a row: the row as it was read, and the new identity that fences its holder off. */
export interface Steering {
  readonly read: KeyRow
  readonly holder: string
  readonly note: Note
  readonly lockTimeoutMs: number
}

/**
 * Changes the row that was read, if nothing in it has changed since, and notes the intervention: a single statement, so
 * that neither can happen without the other. The new holder's id is the note's id, so that it is made only once. The
 * statement waits for whoever is about to commit, but not for long. Parameters from $9 on belong to the change itself.
 */
export const steered =
  (action: string, condition: string, change: string) =>
  ({ keys, interventions }: Tables): string =>
    `
  WITH target AS (
    SELECT k.id FROM ${boundedBy('$8')}, ${keys} AS k
     WHERE k.id = $1::uuid AND k.fence = $2::bigint AND k.xmin = $3::xid AND ${condition}
       FOR NO KEY UPDATE OF k
  ), steered AS (
    UPDATE ${keys} AS k
       SET fence = k.fence + 1, holder = $4::uuid, lease_until = NULL, updated_at = clock_timestamp()${change}
      FROM target WHERE k.id = target.id
    RETURNING ${KEY_COLUMNS}
  ), noted AS (
    INSERT INTO ${interventions} (id, key_id, scope, key, action, actor, reason, detail)
    SELECT $4::uuid, id, scope, key, '${action}', $5, $6, $7::json FROM steered
  )
  SELECT * FROM steered`

export function steeringValues({ read, holder, note, lockTimeoutMs }: Steering): unknown[] {
  return [
    read.id,
    read.fence,
    read.writtenBy,
    holder,
    note.actor,
    note.reason,
    note.detailJson,
    String(lockTimeoutMs),
  ]
}
