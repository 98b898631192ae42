import { DUE_KEYS_PER_LOOK } from '../limits.js'
import type { DueKeys, RunnableVersion } from '../storage/keys/due-keys.js'
import { findUnattendedKeys } from '../storage/keys/find-unattended-keys.js'
import { findUnattendedOfVersion } from '../storage/keys/find-unattended-of-version.js'
import type { Store } from '../storage/statement.js'

/** As `findUnattendedKeys`; over servers, each version is asked for by itself, and the versions take turns here. */
export async function findDueKeys(store: Store, versions: readonly RunnableVersion[]): Promise<DueKeys> {
  if (!store.tables.spread.overServers) return findUnattendedKeys(store, versions)
  const ofVersions: DueKeys[] = []
  for (const version of versions) ofVersions.push(await findUnattendedOfVersion(store, version))
  const found = ofVersions.flatMap(({ keys }) => keys.map((key, turn) => ({ key, turn })))
  return {
    keys: found
      .toSorted((a, b) => a.turn - b.turn)
      .slice(0, DUE_KEYS_PER_LOOK)
      .map(({ key }) => key),
    areAll: found.length <= DUE_KEYS_PER_LOOK && ofVersions.every(({ areAll }) => areAll),
  }
}
