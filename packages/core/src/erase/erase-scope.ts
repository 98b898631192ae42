import { PawlError } from '../errors.js'
import { REAPER_LOCK_TIMEOUT_MS } from '../limits.js'
import { Pseudonyms } from '../pseudonyms.js'
import { eraseDuplicates } from '../storage/duplicates/erase-duplicates.js'
import { noteRound } from '../storage/interventions/note-round.js'
import { findIdsOfKey } from '../storage/keys/find-ids-of-key.js'
import { readClock } from '../storage/schema/read-clock.js'
import type { Store } from '../storage/statement.js'
import { eraseUsage } from '../storage/usage/erase-usage.js'
import type { CheckedErasure } from './check-erasure.js'
import { eraseEffectsOf } from './erase-effects-of.js'
import { eraseInterventionsOf } from './erase-interventions-of.js'
import { eraseJobsOf } from './erase-jobs-of.js'
import { eraseKeysOf } from './erase-keys-of.js'
import type { ErasureParts } from './erasure-parts.js'
import type { ErasureReport } from './erasure.js'
import { inHalves } from './in-halves.js'
import { KeptList } from './kept-list.js'

/** Where to erase. */
export interface ErasureContext {
  with<T>(work: (store: Store) => Promise<T>): Promise<T>
  /** What hashes are made with; null for a random secret. */
  readonly hashSecret: string | null
  /** Called for each key that has been deleted, to drop its copies. */
  readonly onErased: (key: string) => void
  /** Aborted when nothing more is to be begun. */
  readonly stopping: AbortSignal
}

/**
 * Removes what the requests of a scope have left, batch by batch. A batch that has committed is done, whatever becomes of the rest: erased
 * rows are no longer found, so an erasure that was interrupted goes on where it is run again.
 *
 * Jobs go first, because they know the key only by its row's id; effects and interventions last, because those of a key that has to
 * be kept are kept with it.
 */
export async function eraseScope(context: ErasureContext, erasure: CheckedErasure): Promise<ErasureReport> {
  const { scope, key, windowMs, recentEffects, dryRun } = erasure
  const pseudonyms = new Pseudonyms(context.hashSecret)
  const kept = new KeptList()
  const batch = <T>(work: (store: Store) => Promise<T>): Promise<T> => {
    if (context.stopping.aborted)
      throw new PawlError('PAWL_CLOSING', 'The engine is closing. Erase again to go on from here.')
    return context.with((store) => {
      store.session.shortenLockTimeout(REAPER_LOCK_TIMEOUT_MS)
      return work(store)
    })
  }
  const beganMs = await batch(readClock)
  const keyIds = key === null ? null : await batch((store) => findIdsOfKey(store, scope, key))
  const of = { scope, key, beganMs, windowMs: recentEffects ? 0 : windowMs }
  const { onErased } = context
  const parts: ErasureParts = { batch, of, erasure, keyIds, pseudonyms, kept, onErased }
  const scopeHash = pseudonyms.inRecord(scope)
  const note = async (report: ErasureReport | null): Promise<void> => {
    if (!dryRun) await batch((store) => noteRound(store, 'erase', noteOf(parts, scopeHash, report)))
  }
  // Noted first, because an erasure that fails halfway has erased some.
  await note(null)
  const jobs = await eraseJobsOf(parts)
  const keys = await eraseKeysOf(parts)
  const effects = await eraseEffectsOf(parts)
  const interventions = await eraseInterventionsOf(parts)
  if (key === null && !dryRun) await eraseUsageOf(parts)
  const report: ErasureReport = {
    complete: kept.count === 0,
    scopeHash,
    erased: { keys, effects, jobs, interventions },
    keptCount: kept.count,
    kept: kept.named,
  }
  await note(report)
  return report
}

/** Somebody may have a bucket locked who does not go on, and has frozen for example. */
async function eraseUsageOf({ batch, of, kept }: ErasureParts): Promise<void> {
  const all = { what: 'usage', id: 'scope_usage', name: null, until: null } as const
  const act = async (): Promise<void> => {
    await batch((store) => eraseUsage(store, of.scope))
    await batch((store) => eraseDuplicates(store, of.scope))
  }
  await inHalves([all], kept, act, (usage, why) => kept.add({ ...usage, why }))
}

/** Names nothing of what is erased. */
function noteOf(
  { erasure, pseudonyms, of }: ErasureParts,
  scopeHash: string,
  report: ErasureReport | null,
): { readonly actor: string; readonly reason: string; readonly detailJson: string } {
  const { actor, reason, key, windowMs, recentEffects, undeliveredJobs } = erasure
  const keyHash = key === null ? null : pseudonyms.inRecord(of.scope, key)
  const given = { scopeHash, keyHash, windowMs, recentEffects, undeliveredJobs }
  const counts = report === null ? null : { ...report.erased, kept: report.keptCount }
  return { actor, reason, detailJson: JSON.stringify({ before: null, given, counts }) }
}
