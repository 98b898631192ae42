import { EFFECT_COLUMNS, type EffectRow, readEffectRow } from './effect-row.js'
import { defineStatement, type Store } from '../statement.js'

const findStandingEffectsStatement = defineStatement(
  'find_standing_effects',
  ({ effects }) => `
  SELECT ${EFFECT_COLUMNS} FROM ${effects} AS e
   WHERE e.scope = $1 AND e.key = $2 AND e.undone_at IS NULL ORDER BY e.created_at, e.id LIMIT $3::integer`,
)

/** Effects under a key's name that nobody has undone, also those of an earlier key of that name. */
export async function findStandingEffects(
  store: Store,
  name: { readonly scope: string; readonly key: string },
  limit: number,
): Promise<EffectRow[]> {
  const { rows } = await findStandingEffectsStatement(store, [name.scope, name.key, limit])
  return rows.map(readEffectRow)
}
