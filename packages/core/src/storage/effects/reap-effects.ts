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
  ), gone AS (
    DELETE FROM ${tables.effects} AS e USING ${eachOf(tables, 'old', ['scope', 'key', 'id'])}
     WHERE e.scope = each.scope AND e.key = each.key AND e.id = each.id
       AND (SELECT k.revision FROM ${tables.keys} AS k WHERE k.scope = e.scope AND k.key = e.key) IS NULL
    RETURNING e.id
  )
  SELECT ${epochMs('old.created_at')} AS created_ms, gone.id IS NOT NULL AS deleted
    FROM old LEFT JOIN gone ON gone.id = old.id`,
)

/** An old effect. It is not deleted while its key is there, of which it says what must not happen again. */
export interface ReapedEffect {
  readonly createdMs: number
  readonly deleted: boolean
}

/** Deletes those of a batch of old effects, the oldest first, whose key is gone. Returns the batch. */
export async function reapEffects(
  store: Store,
  limit: number,
  fromMs: number | null,
  retentionMs: number,
): Promise<ReapedEffect[]> {
  const { rows } = await reapEffectsStatement(store, [limit, fromMs, retentionMs])
  return rows.map((row) => ({ createdMs: Number(row['created_ms']), deleted: row['deleted'] === 't' }))
}
