import { defineStatement, type Store } from '../statement.js'

const isNotedStatement = defineStatement(
  'is_noted',
  ({ interventions }) => `SELECT i.id FROM ${interventions} AS i WHERE i.scope = $1 AND i.id = $2::uuid`,
)

/** Whether a change went through, whatever has become of its row since. */
export async function isNoted(store: Store, scope: string, holder: string): Promise<boolean> {
  const { rows } = await isNotedStatement(store, [scope, holder])
  return rows.length === 1
}
