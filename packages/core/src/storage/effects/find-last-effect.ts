import { defineStatement, epochMs, type Store } from '../statement.js'
import type { Tables } from '../tables.js'

/** What is known of a request whose key was deleted after its effects. */
export interface LastEffect {
  /** The key that was deleted. */
  readonly keyId: string
  readonly settledMs: number
}

/** From where, and which: effects under this scope and key that nobody has undone. */
export const standingEffects = ({ effects }: Tables, scope: string, key: string): string =>
  `${effects} AS e WHERE e.scope = ${scope} AND e.key = ${key} AND e.undone_at IS NULL`

/**
 * How many effects under this scope and key were undone. It is a part of the provider keys of the next request under that name: under
 * the old ones, a provider would answer with what was undone.
 */
export const undoneEffects = ({ effects }: Tables, scope: string, key: string): string =>
  `(SELECT count(*) FROM ${effects} AS e WHERE e.scope = ${scope} AND e.key = ${key} AND e.undone_at IS NOT NULL)`

const findLastEffectStatement = defineStatement(
  'find_last_effect',
  (tables) => `
  SELECT last.key_id, last.settled_ms, had.undone
    FROM ${undoneEffects(tables, '$1', '$2')} AS had (undone)
    LEFT JOIN (
      SELECT e.key_id, ${epochMs('e.created_at')} AS settled_ms FROM ${standingEffects(tables, '$1', '$2')}
       ORDER BY e.created_at DESC LIMIT 1) AS last ON true`,
)

/** What is known of requests under a name whose keys were deleted. */
export interface EffectsBefore {
  /** The latest that stands, whichever request had it. Null when there is none, or all were undone. */
  readonly last: LastEffect | null
  readonly undone: number
}

/** Looks for effects under a name. */
export async function findLastEffect(store: Store, scope: string, key: string): Promise<EffectsBefore> {
  const { rows } = await findLastEffectStatement(store, [scope, key], 'read')
  const { key_id: keyId, settled_ms: settledMs, undone } = rows[0] ?? {}
  return {
    last: keyId == null ? null : { keyId, settledMs: Number(settledMs) },
    undone: Number(undone),
  }
}
