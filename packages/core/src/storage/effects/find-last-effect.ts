import { defineStatement, epochMs, type Store } from '../statement.js'
import type { Tables } from '../tables.js'

/** What is known of a request whose key was deleted after its effects. */
export interface LastEffect {
  /** The key that was deleted. */
  readonly keyId: string
  readonly settledMs: number
}

const ofName = ({ effects }: Tables, scope: string, key: string): string =>
  `${effects} AS e WHERE e.scope = ${scope} AND e.key = ${key}`

/**
 * How many effects under this scope and key stand, and how many were undone: one row, and one look for both. Those that were undone
 * are a part of the provider keys of the next request under that name: under the old ones, a provider would answer with what was undone.
 */
export const effectsBefore = (tables: Tables, scope: string, key: string): string =>
  `SELECT count(*) - count(e.undone_at) AS standing, count(e.undone_at) AS undone FROM ${ofName(tables, scope, key)}`

const findLastEffectStatement = defineStatement(
  'find_last_effect',
  (tables) => `
  SELECT last.key_id, last.settled_ms, had.undone
    FROM (${effectsBefore(tables, '$1', '$2')}) AS had
    LEFT JOIN (
      SELECT e.key_id, ${epochMs('e.created_at')} AS settled_ms FROM ${ofName(tables, '$1', '$2')}
         AND e.undone_at IS NULL
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
