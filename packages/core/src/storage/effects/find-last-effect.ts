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

const findLastEffectStatement = defineStatement(
  'find_last_effect',
  (tables) => `
  SELECT e.key_id, ${epochMs('e.created_at')} AS settled_ms
    FROM ${standingEffects(tables, '$1', '$2')}
   ORDER BY e.created_at DESC LIMIT 1`,
)

/** The latest effect under a name, whichever request had it. Returns null when there is none, or all were undone. */
export async function findLastEffect(store: Store, scope: string, key: string): Promise<LastEffect | null> {
  const { rows } = await findLastEffectStatement(store, [scope, key], 'read')
  const [row] = rows
  return row === undefined ? null : { keyId: row['key_id'] ?? '', settledMs: Number(row['settled_ms']) }
}
