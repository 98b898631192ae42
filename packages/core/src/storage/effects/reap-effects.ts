import { from } from '../keys/expired.js'
import { defineStatement, epochMs, msInterval, NOW, type Store } from '../statement.js'

const reapEffectsStatement = defineStatement(
  'reap_effects',
  ({ effects }) => `
  WITH old AS (
    SELECT scope, key, id, created_at FROM ${effects}
     WHERE created_at <= (${NOW} - ${msInterval('$3')}) AND ${from('created_at', '$2')}
     ORDER BY created_at LIMIT $1::integer
       FOR UPDATE SKIP LOCKED
  )
  DELETE FROM ${effects} AS e USING old
   WHERE e.scope = old.scope AND e.key = old.key AND e.id = old.id
     AND e.created_at = ANY (ARRAY(SELECT created_at FROM old))
  RETURNING ${epochMs('e.created_at')} AS created_ms`,
)

/** Deletes a batch of old effects, the oldest first; returns when each was settled. */
export async function reapEffects(
  store: Store,
  limit: number,
  fromMs: number | null,
  retentionMs: number,
): Promise<number[]> {
  const { rows } = await reapEffectsStatement(store, [limit, fromMs, retentionMs])
  return rows.map((row) => Number(row['created_ms']))
}
