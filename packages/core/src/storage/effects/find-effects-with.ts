import { EFFECT_COLUMNS, type EffectRow, readEffectRow } from './effect-row.js'
import { defineStatement, epochMs, msInterval, NOW, type Store } from '../statement.js'

/** Effects that a provider knows by a name, and how far back was looked for them. */
export interface EffectsWith {
  readonly effects: readonly EffectRow[]
  /** Not all effects that were settled before this were looked at; null where all were. */
  readonly lookedBackToMs: number | null
}

const findEffectsIndexedStatement = defineStatement(
  'find_effects_indexed',
  ({ effects }) => `
  SELECT ${EFFECT_COLUMNS} FROM ${effects} AS e WHERE e.reference = $1 OR e.provider_key = $1
   ORDER BY e.created_at DESC LIMIT $2::integer`,
)

/** By the index on their time: references are in no index, unless somebody makes one. */
const findEffectsLatelyStatement = defineStatement(
  'find_effects_lately',
  ({ effects }) => `
  WITH looked AS (
    SELECT * FROM ${effects} AS e WHERE e.created_at > (${NOW} - ${msInterval('$3')})
     ORDER BY e.created_at DESC LIMIT $4::integer
  )
  SELECT s.count, s.first_ms, ${epochMs(`(${NOW} - ${msInterval('$3')})`)} AS since_ms, f.*
    FROM (SELECT count(*) AS count, ${epochMs('min(l.created_at)')} AS first_ms FROM looked AS l) AS s
    LEFT JOIN (SELECT ${EFFECT_COLUMNS} FROM looked AS e
                WHERE e.reference = $1 OR e.provider_key = $1 OR e.key = $1
                ORDER BY e.created_at DESC LIMIT $2::integer) AS f ON true`,
)

/** Effects with that reference or provider key, by indexes on both. */
export async function findEffectsIndexed(store: Store, name: string, limit: number): Promise<EffectsWith> {
  const { rows } = await findEffectsIndexedStatement(store, [name, limit])
  return { effects: rows.map(readEffectRow), lookedBackToMs: null }
}

/** The same without them, among the latest: also by the key of the request, which may be gone. */
export async function findEffectsLately(
  store: Store,
  name: string,
  limit: number,
  { forMs, mostLookedAt }: { readonly forMs: number; readonly mostLookedAt: number },
): Promise<EffectsWith> {
  const { rows } = await findEffectsLatelyStatement(store, [name, limit, forMs, mostLookedAt])
  const [first = {}] = rows
  const isCut = Number(first['count']) >= mostLookedAt
  return {
    effects: rows.filter((row) => row['id'] != null).map(readEffectRow),
    lookedBackToMs: Number(isCut ? first['first_ms'] : first['since_ms']),
  }
}
