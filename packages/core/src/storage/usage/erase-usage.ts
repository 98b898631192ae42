import { defineStatement, type Store } from '../statement.js'

const eraseUsageStatement = defineStatement(
  'erase_usage',
  ({ scopeUsage }) => `DELETE FROM ${scopeUsage} AS u WHERE u.scope = $1`,
)

/** Forgets how much of its limits a scope has used. */
export async function eraseUsage(store: Store, scope: string): Promise<void> {
  await eraseUsageStatement(store, [scope])
}
