import { EFFECT_COLUMNS, type EffectRow, readEffectRow } from './effect-row.js'
import { defineStatement, type Store } from '../statement.js'

const findEffectsOfKeyStatement = defineStatement(
  'find_effects_of_key',
  ({ effects }) => `
  SELECT ${EFFECT_COLUMNS} FROM ${effects} AS e
   WHERE e.scope = $1 AND e.key = $2 AND e.key_id = $3::uuid ORDER BY e.created_at, e.id LIMIT $4::integer`,
)

/**
 * What a key's phases settled. Found by scope and key, which are indexed; effects of an earlier key of the same name are
 * left out.
 */
export async function findEffectsOfKey(
  store: Store,
  key: { readonly id: string; readonly scope: string; readonly key: string },
  limit: number,
): Promise<EffectRow[]> {
  const { rows } = await findEffectsOfKeyStatement(store, [key.scope, key.key, key.id, limit])
  return rows.map(readEffectRow)
}
