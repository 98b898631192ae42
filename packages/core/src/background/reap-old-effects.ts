import { deleteEffects } from '../storage/effects/delete-effects.js'
import { findOldEffects } from '../storage/effects/find-old-effects.js'
import { reapEffects } from '../storage/effects/reap-effects.js'
import type { Store } from '../storage/statement.js'
import { forEachShard } from './for-each-shard.js'

/** Deletes a batch of old effects, the oldest first; returns when each was settled. */
export async function reapOldEffects(
  store: Store,
  limit: number,
  fromMs: number | null,
  retentionMs: number,
): Promise<number[]> {
  if (!store.tables.spread.overServers) return reapEffects(store, limit, fromMs, retentionMs)
  const old = await findOldEffects(store, limit, fromMs, retentionMs)
  return forEachShard(store, old, (group) => deleteEffects(store, group))
}
