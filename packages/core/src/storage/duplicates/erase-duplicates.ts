import { defineStatement, type Store } from '../statement.js'

const eraseDuplicatesStatement = defineStatement(
  'erase_duplicates',
  ({ duplicates }) => `DELETE FROM ${duplicates} AS d WHERE d.scope = $1`,
)

/** Forgets how many duplicates a scope has sent. */
export async function eraseDuplicates(store: Store, scope: string): Promise<void> {
  await eraseDuplicatesStatement(store, [scope])
}
