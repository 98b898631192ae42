import { EFFECT_COLUMNS, type EffectRow, readEffectRow } from './effect-row.js'
import { defineStatement, momentOfUs, type Store } from '../statement.js'

const findEffectsStatement = defineStatement(
  'find_effects',
  ({ effects }) => `
  SELECT ${EFFECT_COLUMNS} FROM ${effects} AS e
   WHERE (e.created_at, e.id) > (${momentOfUs('$1')}, $2::uuid) AND e.created_at < ${momentOfUs('$3')}
   ORDER BY e.created_at, e.id LIMIT $4::integer`,
)

/** How far the effects have been read: up to and including this row. */
export interface EffectCursor {
  readonly createdUs: string
  readonly id: string
}

/** The effects after a cursor and before a moment, oldest first. */
export async function findEffects(
  store: Store,
  after: EffectCursor,
  beforeUs: string,
  limit: number,
): Promise<EffectRow[]> {
  const { rows } = await findEffectsStatement(store, [after.createdUs, after.id, beforeUs, limit])
  return rows.map(readEffectRow)
}
