import { ERASE_COPY_BATCH_SIZE } from '../limits.js'
import { type EffectToErase, findEffectsToErase } from '../storage/effects/find-effects-to-erase.js'
import { type NewNames, renameEffects } from '../storage/effects/rename-effects.js'
import { type ErasureParts, FIRST_ID } from './erasure-parts.js'
import type { KeptBecause } from './erasure.js'
import { inHalves } from './in-halves.js'

/** Replaces the names of effects whose key is gone by hashes: the rows are for reconciliation. Returns how many. */
export async function eraseEffectsOf(parts: ErasureParts): Promise<number> {
  const { batch, of, erasure, pseudonyms, kept } = parts
  const newScope = pseudonyms.ofScope(of.scope)
  const nameOf = ({ key, reference }: EffectToErase): NewNames => ({
    scope: newScope,
    key: pseudonyms.ofKey(of.scope, key),
    reference: reference === null ? null : pseudonyms.ofReference(reference),
  })
  const keep = ({ id, key, recentMs }: EffectToErase, why: KeptBecause): void => {
    const until = recentMs === null ? null : new Date(recentMs + of.windowMs)
    kept.add({ what: 'effect', id, name: key, why, until })
  }
  let erased = 0
  let after: Pick<EffectToErase, 'key' | 'id'> = { key: '', id: FIRST_ID }
  for (;;) {
    const from = after
    const page = await batch((store) => findEffectsToErase(store, of, from, ERASE_COPY_BATCH_SIZE))
    // Those of keys that are kept are kept with them.
    const ownerless = page.filter(
      ({ keptBy }) => keptBy === null || (erasure.dryRun && !kept.keyIds.has(keptBy)),
    )
    const wanted = ownerless.filter(({ recentMs }) => recentMs === null)
    for (const effect of ownerless) if (effect.recentMs !== null) keep(effect, 'recent_effect')
    if (erasure.dryRun) erased += wanted.length
    else {
      const act = async (effects: readonly EffectToErase[]): Promise<void> => {
        await batch((store) => renameEffects(store, of.scope, effects, nameOf))
        erased += effects.length
      }
      await inHalves(wanted, kept, act, keep)
    }
    const last = page.at(-1)
    if (last === undefined || page.length < ERASE_COPY_BATCH_SIZE) return erased
    after = last
  }
}
