import { deleteEffects } from '../storage/effects/delete-effects.js'
import { findOldEffects } from '../storage/effects/find-old-effects.js'
import { reapEffects, type ReapedEffect } from '../storage/effects/reap-effects.js'
import type { Store } from '../storage/statement.js'
import { forEachShard } from './for-each-shard.js'

/** Deletes those of a batch of old effects, the oldest first, whose key is gone; over servers, all of them. Returns the batch. */
export async function reapOldEffects(
  store: Store,
  limit: number,
  fromMs: number | null,
  retentionMs: number,
): Promise<ReapedEffect[]> {
  if (!store.tables.spread.overServers) return reapEffects(store, limit, fromMs, retentionMs)
  const old = await findOldEffects(store, limit, fromMs, retentionMs)
  const deletedMs = await forEachShard(store, old, (group) => deleteEffects(store, group))
  return deletedMs.map((createdMs) => ({ createdMs, deleted: true }))
}
