import { from } from '../keys/expired.js'
import { defineStatement, eachOf, epochMs, msInterval, NOW, type Store } from '../statement.js'

const reapEffectsStatement = defineStatement(
  'reap_effects',
  (tables) => `
  WITH old AS (
    SELECT scope, key, id, created_at FROM ${tables.effects}
     WHERE created_at <= (${NOW} - ${msInterval('$3')}) AND ${from('created_at', '$2')}
     ORDER BY created_at LIMIT $1::integer
       FOR UPDATE SKIP LOCKED
  )
  DELETE FROM ${tables.effects} AS e USING ${eachOf(tables, 'old', ['scope', 'key', 'id'])}
   WHERE e.scope = each.scope AND e.key = each.key AND e.id = each.id
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
