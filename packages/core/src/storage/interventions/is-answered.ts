import { defineStatement, type Store } from '../statement.js'

const isAnsweredStatement = defineStatement(
  'is_answered',
  ({ interventions }) => `
  SELECT i.id FROM ${interventions} AS i
   WHERE i.scope = $1 AND i.key_id = $2::uuid AND i.action = 'answer' LIMIT 1`,
)

/** Whether a person gave the key's response, however much else was done to the key and noted. */
export async function isAnswered(
  store: Store,
  { scope, id }: { readonly scope: string; readonly id: string },
): Promise<boolean> {
  const { rows } = await isAnsweredStatement(store, [scope, id])
  return rows.length === 1
}
