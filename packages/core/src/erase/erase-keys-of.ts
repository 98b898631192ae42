import { cachesAreOutdated } from '../caches-are-outdated.js'
import { ERASE_BATCH_SIZE } from '../limits.js'
import { outdateCaches } from '../storage/cache/raise-cache-epoch.js'
import { eraseKeys } from '../storage/keys/erase-keys.js'
import { findKeysToErase, type KeyToErase } from '../storage/keys/find-keys-to-erase.js'
import type { ErasureParts } from './erasure-parts.js'
import type { KeptBecause } from './erasure.js'
import { inHalves } from './in-halves.js'

/**
 * Deletes the finished keys of a scope that nothing asks to be kept. When it returns how many, no engine replays one from a cache
 * any more.
 */
export async function eraseKeysOf(parts: ErasureParts): Promise<number> {
  const { batch, of, erasure, kept } = parts
  const keep = ({ id, key, recentEffectMs }: KeyToErase, why: KeptBecause): void => {
    const endsMs = why === 'recent_effect' && recentEffectMs !== null ? recentEffectMs + of.windowMs : null
    kept.add({ what: 'key', id, name: key, why, until: endsMs === null ? null : new Date(endsMs) })
  }
  let erased = 0
  let after = ''
  for (;;) {
    const from = after
    const page = await batch((store) => findKeysToErase(store, of, from, ERASE_BATCH_SIZE))
    const wanted: KeyToErase[] = []
    for (const key of page) {
      const why = whyKept(key, erasure)
      if (why === null) wanted.push(key)
      else keep(key, why)
    }
    if (erasure.dryRun) erased += wanted.length
    else {
      const act = async (keys: readonly KeyToErase[]): Promise<void> => {
        const gone = new Set(await batch((store) => eraseKeys(store, of, keys)))
        erased += gone.size
        for (const key of keys) {
          if (gone.has(key.id)) parts.onErased(key.key)
          else keep(key, 'locked')
        }
      }
      await inHalves(wanted, kept, act, keep)
    }
    const last = page.at(-1)
    if (last === undefined || page.length < ERASE_BATCH_SIZE) break
    after = last.key
  }
  // Also what an erasure has deleted that was interrupted, perhaps a moment ago.
  if (!erasure.dryRun && (await batch(outdateCaches))) await cachesAreOutdated()
  return erased
}

function whyKept(
  { status, hasChanged, hasUndeliveredJobs, recentEffectMs }: KeyToErase,
  { undeliveredJobs, dryRun }: ErasureParts['erasure'],
): KeptBecause | null {
  if (status !== 'finished') return status
  if (recentEffectMs !== null) return 'recent_effect'
  // With its key gone, an effect of it that came since the erasure began would stay behind under its names.
  if (hasChanged) return 'locked'
  // Whoever looks at the job wants to know its key. In a dry run, the jobs that would be gone by now are still there.
  return hasUndeliveredJobs && !(undeliveredJobs && dryRun) ? 'undelivered' : null
}
