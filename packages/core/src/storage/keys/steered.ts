import type { Note } from '../interventions/note.js'
import { asRead, readValues } from './as-read.js'
import { WRITTEN } from './hold.js'
import { KEY_COLUMNS_WRITTEN, type KeyRow } from './key-row.js'
import { NOW } from '../statement.js'
import type { Tables } from '../tables.js'

/** A change to a row: the row as it was read, and the new identity that fences its holder off. */
export interface Steering {
  readonly read: KeyRow
  readonly holder: string
  readonly note: Note
}

/**
 * Changes the row that was read, if nothing in it has changed since, and notes the intervention: a single statement, so
 * that neither can happen without the other. The new holder's id is the note's id, so that it is made only once. The
 * statement waits for whoever is about to commit, but not for long. Parameters from $11 on belong to the change itself. `also`: what
 * else the statement does.
 */
export const steered =
  (action: string, condition: string, change: string, also: (tables: Tables) => string = () => '') =>
  (tables: Tables): string => {
    const { keys, interventions, server } = tables
    return `
  WITH target AS (
    SELECT k.scope, k.key, ${server} AS server FROM ${keys} AS k
     WHERE k.scope = $1 AND k.key = $2 AND ${asRead('k.', 3)} AND ${condition}
       FOR NO KEY UPDATE OF k
  ), steered AS (
    UPDATE ${keys} AS k
       SET fence = k.fence + 1, holder = $7::uuid, lease_until = NULL, updated_at = ${NOW}, ${WRITTEN}${change}
      FROM target WHERE k.scope = $1 AND k.key = $2 AND k.key = target.key
    RETURNING ${KEY_COLUMNS_WRITTEN}, target.server
  ), noted AS (
    INSERT INTO ${interventions} (id, key_id, scope, key, action, actor, reason, detail, created_at)
    SELECT $7::uuid, id, $1, key, '${action}', $8, $9, $10::json, ${NOW} FROM steered
  )${also(tables)}
  SELECT * FROM steered`
  }

export function steeringValues({ read, holder, note }: Steering): unknown[] {
  return [read.scope, read.key, ...readValues(read), holder, note.actor, note.reason, note.detailJson]
}
