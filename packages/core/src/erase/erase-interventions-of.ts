import { ERASE_COPY_BATCH_SIZE } from '../limits.js'
import {
  findInterventionsToErase,
  type InterventionToErase,
} from '../storage/interventions/find-interventions-to-erase.js'
import { renameInterventions } from '../storage/interventions/rename-interventions.js'
import { type ErasureParts, FIRST_ID } from './erasure-parts.js'
import type { KeptBecause } from './erasure.js'
import { inHalves } from './in-halves.js'

/** Leaves of the records of a scope's interventions only that somebody did something, and when. Returns how many. */
export async function eraseInterventionsOf(parts: ErasureParts): Promise<number> {
  const { batch, of, erasure, keyIds, pseudonyms, kept } = parts
  const which = { scope: of.scope, key: of.key, keyIds, beganMs: of.beganMs, ofAnyKey: erasure.dryRun }
  const newScope = pseudonyms.ofScope(of.scope)
  const keep = ({ id }: InterventionToErase, why: KeptBecause): void =>
    kept.add({ what: 'intervention', id, name: null, why, until: null })
  let erased = 0
  let after = FIRST_ID
  for (;;) {
    const from = after
    const page = await batch((store) => findInterventionsToErase(store, which, from, ERASE_COPY_BATCH_SIZE))
    if (erasure.dryRun) erased += page.filter(({ keyId }) => !kept.keyIds.has(keyId ?? '')).length
    else {
      const act = async (interventions: readonly InterventionToErase[]): Promise<void> => {
        await batch((store) => renameInterventions(store, of.scope, interventions, newScope))
        erased += interventions.length
      }
      await inHalves(page, kept, act, keep)
    }
    const last = page.at(-1)
    if (last === undefined || page.length < ERASE_COPY_BATCH_SIZE) return erased
    after = last.id
  }
}
