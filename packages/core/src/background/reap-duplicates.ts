import { deleteDuplicates } from '../storage/duplicates/delete-duplicates.js'
import { findOldDuplicates } from '../storage/duplicates/find-old-duplicates.js'
import type { Store } from '../storage/statement.js'
import { forEachShard } from './for-each-shard.js'

/** Deletes a batch of counts of duplicates that have been kept for long enough, the oldest first; returns how many. */
export async function reapDuplicates(store: Store, limit: number, retentionMs: number): Promise<number> {
  const old = await findOldDuplicates(store, limit, retentionMs)
  if (old.length === 0) return 0
  return (await forEachShard(store, old, (group) => deleteDuplicates(store, group))).length
}
