import { from, oneOf } from '../keys/expired.js'
import { boundedBy, defineStatement, epochMs, msInterval, type Store } from '../statement.js'

const reapEffectsStatement = defineStatement(
  'reap_effects',
  ({ effects }) => `
  WITH old AS (
    SELECT id FROM ${effects}
     WHERE created_at <= (SELECT clock_timestamp() - ${msInterval('$3')}) AND ${from('created_at', '$2')}
     ORDER BY created_at LIMIT $1::integer
       FOR UPDATE SKIP LOCKED
  )
  DELETE FROM ${effects} AS e USING ${boundedBy('$4')} WHERE e.id ${oneOf('old')}
  RETURNING ${epochMs('e.created_at')} AS created_ms`,
)

/** Deletes a batch of old effects, the oldest first; returns when each was settled. */
export async function reapEffects(
  store: Store,
  limit: number,
  fromMs: number | null,
  retentionMs: number,
  lockTimeoutMs: number,
): Promise<number[]> {
  const { rows } = await reapEffectsStatement(store, [limit, fromMs, retentionMs, String(lockTimeoutMs)])
  return rows.map((row) => Number(row['created_ms']))
}
