import { findIdleUsage, type Usage } from '../storage/usage/find-idle-usage.js'
import { foldBytes } from '../storage/usage/fold-bytes.js'
import { reapBuckets } from '../storage/usage/reap-buckets.js'
import type { Store } from '../storage/statement.js'
import { forEachShard } from './for-each-shard.js'

/** What one page had, and where the next one begins: null after the last. */
interface Page {
  readonly deleted: number
  readonly after: string | null
}

/** Deletes what is as good as nothing of a page of usage: full buckets, and counts of scopes that have nothing stored. */
export async function reapUsage(store: Store, limit: number, after: string): Promise<Page> {
  const found = await findIdleUsage(store, after, limit)
  const idle = found.filter(({ isIdle }) => isIdle)
  let deleted = 0
  const buckets = idle.filter(({ kind }) => kind !== 'stored_bytes')
  for (const count of await forEachShard(store, buckets, async (group) => [await reapBuckets(store, group)]))
    deleted += count
  const counts = idle.filter(({ kind }) => kind === 'stored_bytes')
  if (counts.length > 0) deleted += await foldBytes(store, counts)
  return { deleted, after: nextAfter(found, limit) }
}

/** The last scope of a full page may have more rows: the next page begins with it, unless it has filled a page by itself. */
function nextAfter(found: readonly Usage[], limit: number): string | null {
  const rows = found.reduce((sum, { parts }) => sum + parts, 0)
  if (rows < limit) return null
  const scopes = [...new Set(found.map(({ scope }) => scope))]
  return scopes.at(-2) ?? scopes.at(-1) ?? null
}
