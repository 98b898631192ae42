import { EFFECT_COLUMNS, type EffectRow, readEffectRow } from './effect-row.js'
import { type ErasedScope, wasThere } from '../keys/find-keys-to-erase.js'
import { defineStatement, epochMs, msInterval, NOW, type Store } from '../statement.js'

/** An effect of a scope, and what decides whether its names may be erased. */
export interface EffectToErase extends EffectRow {
  /** The id of the key that is still there, and keeps it: its own, or, if it was undone, whichever has its name now. */
  readonly keptBy: string | null
  /** When it was settled, if not long ago, also if it was undone: its provider remembers it, and a retry needs another provider key. */
  readonly recentMs: number | null
  readonly undoneUs: string | null
}

/**
 * What was undone counts towards the provider keys of later requests of its name. So it stays as long as they, or one of their provider
 * keys would come again, and the provider would answer with what was undone.
 */
const findEffectsToEraseStatement = defineStatement(
  'find_effects_to_erase',
  ({ keys, effects }) => `
  SELECT ${EFFECT_COLUMNS}, floor(extract(epoch FROM e.undone_at) * 1000000) AS undone_us,
         (SELECT k.id FROM ${keys} AS k
           WHERE k.scope = $1 AND k.key = e.key AND (k.id = e.key_id OR e.undone_at IS NOT NULL)) AS kept_by,
         (SELECT max(${epochMs('o.created_at')}) FROM ${effects} AS o
           WHERE o.scope = $1 AND o.key = e.key AND (o.id = e.id OR e.undone_at IS NOT NULL)
             AND (o.created_at + interval '0') > (${NOW} - ${msInterval('$6')})) AS recent_ms
    FROM ${effects} AS e
   WHERE e.scope = $1 AND (e.key, e.id) > ($2, $3::uuid) AND ($4::text IS NULL OR e.key = $4)
     AND ${wasThere("(e.created_at + interval '0')", '$5')}
   ORDER BY e.key, e.id LIMIT $7::integer`,
)

/** A page of the effects of a scope, after the last one of the page before. */
export async function findEffectsToErase(
  store: Store,
  of: ErasedScope,
  after: Pick<EffectRow, 'key' | 'id'>,
  limit: number,
): Promise<EffectToErase[]> {
  const values = [of.scope, after.key, after.id, of.key, of.beganMs, of.windowMs, limit]
  const { rows } = await findEffectsToEraseStatement(store, values)
  return rows.map((row) => ({
    ...readEffectRow(row),
    keptBy: row['kept_by'] ?? null,
    recentMs: row['recent_ms'] == null ? null : Number(row['recent_ms']),
    undoneUs: row['undone_us'] ?? null,
  }))
}
