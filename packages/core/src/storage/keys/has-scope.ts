import { defineStatement, type Store } from '../statement.js'

const hasScopeStatement = defineStatement(
  'has_scope',
  ({ keys }) => `SELECT k.scope FROM ${keys} AS k WHERE k.scope = $1 LIMIT 1`,
)

/** Whether there is any key of that scope. */
export async function hasScope(store: Store, scope: string): Promise<boolean> {
  const { rows } = await hasScopeStatement(store, [scope])
  return rows.length === 1
}
