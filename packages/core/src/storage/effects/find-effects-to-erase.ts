import { EFFECT_COLUMNS, type EffectRow, readEffectRow } from './effect-row.js'
import { type ErasedScope, wasThere } from '../keys/find-keys-to-erase.js'
import { defineStatement, msInterval, NOW, type Store } from '../statement.js'

/** An effect of a scope, and what decides whether its names may be erased. */
export interface EffectToErase extends EffectRow {
  /** Its key is still there, and keeps it. */
  readonly hasKey: boolean
  /** Also if it was undone: its provider remembers it, and a retry needs another provider key. */
  readonly isRecent: boolean
  readonly undoneUs: string | null
}

const findEffectsToEraseStatement = defineStatement(
  'find_effects_to_erase',
  ({ keys, effects }) => `
  SELECT ${EFFECT_COLUMNS}, floor(extract(epoch FROM e.undone_at) * 1000000) AS undone_us,
         (SELECT k.revision FROM ${keys} AS k
           WHERE k.scope = $1 AND k.key = e.key AND k.id = e.key_id) IS NOT NULL AS has_key,
         e.created_at > (${NOW} - ${msInterval('$6')}) AS is_recent
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
    hasKey: row['has_key'] === 't',
    isRecent: row['is_recent'] === 't',
    undoneUs: row['undone_us'] ?? null,
  }))
}
