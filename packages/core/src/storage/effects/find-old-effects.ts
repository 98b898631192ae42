import { from } from '../keys/expired.js'
import { readAllShards } from '../schema/read-all-shards.js'
import { defineStatement, epochMs, msInterval, NOW, type Store } from '../statement.js'

/** An effect that has been kept long enough. */
export interface OldEffect {
  readonly scope: string
  readonly key: string
  readonly id: string
  readonly createdMs: number
}

const findOldEffectsStatement = defineStatement(
  'find_old_effects',
  ({ effects }) => `
  SELECT e.scope, e.key, e.id, ${epochMs('e.created_at')} AS created_ms FROM ${effects} AS e
   WHERE e.created_at <= (${NOW} - ${msInterval('$3')}) AND ${from('e.created_at', '$2')}
   ORDER BY e.created_at LIMIT $1::integer`,
)

/** Finds a batch of old effects, the oldest first. It locks nothing. */
export async function findOldEffects(
  store: Store,
  limit: number,
  fromMs: number | null,
  retentionMs: number,
): Promise<OldEffect[]> {
  const { effects } = store.tables
  const rows = await readAllShards(findOldEffectsStatement, store, [limit, fromMs, retentionMs], effects)
  return rows
    .map((row) => ({
      scope: row['scope'] ?? '',
      key: row['key'] ?? '',
      id: row['id'] ?? '',
      createdMs: Number(row['created_ms']),
    }))
    .toSorted((a, b) => a.createdMs - b.createdMs)
    .slice(0, limit)
}
