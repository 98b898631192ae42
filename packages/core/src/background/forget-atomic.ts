import { findLeftKeys } from '../storage/keys/find-left-keys.js'
import { type AtomicVersion, forgetAtomicKeys } from '../storage/keys/forget-atomic-keys.js'
import { forgetLeftKeys } from '../storage/keys/forget-left-keys.js'
import type { Store } from '../storage/statement.js'
import { forEachShard } from './for-each-shard.js'

/** Deletes keys of atomic handlers that nobody came back for; returns how many. */
export async function forgetAtomic(
  store: Store,
  versions: readonly AtomicVersion[],
  limit: number,
): Promise<number> {
  if (!store.tables.spread.overServers) return forgetAtomicKeys(store, versions, limit)
  let forgotten = 0
  for (const version of versions) {
    const left = await findLeftKeys(store, version, limit)
    const ids = await forEachShard(store, left, (names) => forgetLeftKeys(store, names, version))
    forgotten += ids.length
  }
  return forgotten
}
