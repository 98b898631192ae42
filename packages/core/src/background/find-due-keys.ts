import { DUE_KEYS_PER_LOOK } from '../limits.js'
import { AT_START, type DueKey, type Place, type RunnableVersion } from '../storage/keys/due-keys.js'
import { findUnattendedKeys } from '../storage/keys/find-unattended-keys.js'
import { byPlace, findUnattendedOfVersion } from '../storage/keys/find-unattended-of-version.js'
import type { Store } from '../storage/statement.js'

/** As `findUnattendedKeys`; over servers, each version is asked for by itself, and the versions take turns here. */
export async function findDueKeys(
  store: Store,
  versions: readonly RunnableVersion[],
  after: readonly Place[],
): Promise<DueKey[]> {
  if (!store.tables.spread.overServers) return findUnattendedKeys(store, versions, after)
  const found: { readonly key: DueKey; readonly turn: number }[] = []
  for (const [nth, version] of versions.entries()) {
    const keys = await findUnattendedOfVersion(store, version, after[nth] ?? AT_START, nth)
    found.push(...keys.map((key, turn) => ({ key, turn })))
  }
  return found
    .toSorted((a, b) => a.turn - b.turn || byPlace(a.key, b.key))
    .slice(0, DUE_KEYS_PER_LOOK)
    .map(({ key }) => key)
}
