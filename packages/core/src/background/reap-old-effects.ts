import { deleteEffects } from '../storage/effects/delete-effects.js'
import { findOldEffects } from '../storage/effects/find-old-effects.js'
import { reapEffects, type ReapedEffect } from '../storage/effects/reap-effects.js'
import type { Store } from '../storage/statement.js'
import { forEachShard } from './for-each-shard.js'

/** Deletes those of a batch of old effects, the oldest first, whose key is gone. Returns the batch. */
export async function reapOldEffects(
  store: Store,
  limit: number,
  fromMs: number | null,
  retentionMs: number,
): Promise<ReapedEffect[]> {
  if (!store.tables.spread.overServers) return reapEffects(store, limit, fromMs, retentionMs)
  const old = await findOldEffects(store, limit, fromMs, retentionMs)
  const deleted = new Set(await forEachShard(store, old, (group) => deleteEffects(store, group)))
  return old.map(({ id, createdMs }) => ({ createdMs, deleted: deleted.has(id) }))
}
