import { defineStatement, type Store } from '../statement.js'

const isNotedStatement = defineStatement(
  'is_noted',
  ({ interventions }) => `SELECT i.id FROM ${interventions} AS i WHERE i.id = $1::uuid`,
)

/** Whether a change went through, whatever has become of its row since. */
export async function isNoted(store: Store, holder: string): Promise<boolean> {
  const { rows } = await isNotedStatement(store, [holder])
  return rows.length === 1
}
