import { type InterventionRow, readInterventionRow } from './find-interventions.js'
import { defineStatement, epochMs, type Store } from '../statement.js'

/** A key that is gone, by what is known of it: its id, or its name in its scope. */
export interface GoneKey {
  readonly id: string | null
  readonly scope: string | null
  readonly key: string | null
}

/** By time, because of a key that is gone only its id may be known, and whoever asks has looked at it a while ago. */
const findForgettingStatement = defineStatement(
  'find_forgetting',
  ({ interventions }) => `
  SELECT l.action, l.actor, l.reason, l.detail, ${epochMs('l.created_at')} AS created_ms, l.key_id, l.scope, l.key
    FROM (SELECT * FROM ${interventions} AS i ORDER BY i.created_at DESC LIMIT $4::integer) AS l
   WHERE l.action = 'forget' AND (l.key_id = $1::uuid OR l.scope = $2 AND l.key = $3)
   ORDER BY l.created_at DESC LIMIT 1`,
)

/** Who forgot a key, among the latest interventions; null if none of them did. */
export async function findForgetting(
  store: Store,
  { id, scope, key }: GoneKey,
  mostLookedAt: number,
): Promise<InterventionRow | null> {
  const { rows } = await findForgettingStatement(store, [id, scope, key, mostLookedAt])
  const [row] = rows
  if (row === undefined) return null
  const of = { id: row['key_id'] ?? '', scope: row['scope'] ?? '', key: row['key'] ?? '' }
  return readInterventionRow(row, store.tables, of)
}
