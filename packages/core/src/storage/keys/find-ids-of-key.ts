import { defineStatement, type Store } from '../statement.js'

const findIdsOfKeyStatement = defineStatement(
  'find_ids_of_key',
  ({ keys, effects, interventions }) => `
  SELECT k.id FROM ${keys} AS k WHERE k.scope = $1 AND k.key = $2
  UNION ALL SELECT e.key_id FROM ${effects} AS e WHERE e.scope = $1 AND e.key = $2
  UNION ALL SELECT i.key_id FROM ${interventions} AS i WHERE i.scope = $1 AND i.key = $2`,
)

/** The ids that a key has had, as far as rows still say so: jobs know only those. */
export async function findIdsOfKey(store: Store, scope: string, key: string): Promise<string[]> {
  const { rows } = await findIdsOfKeyStatement(store, [scope, key])
  return [...new Set(rows.flatMap((row) => row['id'] ?? []))]
}
