import { foldBytes } from './fold-bytes.js'
import { defineStatement, type Store } from '../statement.js'

const eraseUsageStatement = defineStatement(
  'erase_usage',
  ({ scopeUsage }) => `DELETE FROM ${scopeUsage} AS u WHERE u.scope = $1 AND u.kind <> 'stored_bytes'`,
)

const findCountsStatement = defineStatement(
  'find_counts_of_scope',
  ({ scopeUsage }) => `
  SELECT DISTINCT u.pipeline FROM ${scopeUsage} AS u WHERE u.scope = $1 AND u.kind = 'stored_bytes'`,
)

/** Forgets how much of its limits a scope has used. What its keys take stays counted as long as there are any. */
export async function eraseUsage(store: Store, scope: string): Promise<void> {
  await eraseUsageStatement(store, [scope])
  const { rows } = await findCountsStatement(store, [scope], 'read')
  const counts = rows.map((row) => ({ scope, pipeline: row['pipeline'] ?? '' }))
  if (counts.length > 0) await foldBytes(store, counts)
}
