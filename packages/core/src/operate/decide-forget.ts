import type { Step } from '../engine/steer-key.js'
import type { EffectRow } from '../storage/effects/effect-row.js'
import { forgetFinishedKey } from '../storage/keys/forget-finished-key.js'
import type { KeyRow } from '../storage/keys/key-row.js'

/** As many effects as fit in a sentence. */
const NAMED_EFFECTS = 5

/**
 * Whether a key may be deleted by hand. `standing`: its effects that nobody has undone. `onUncached`: called when it has been, and
 * no engine can replay it from a cache.
 */
export function decideForget(
  row: KeyRow,
  standing: readonly EffectRow[],
  effectsUndone: boolean,
  onUncached: () => void,
): Step {
  if (row.status === 'stuck')
    return { type: 'refuse', detail: 'The key is stuck, and a person has to unstick or answer it first.' }
  if (row.status === 'running')
    return { type: 'refuse', detail: 'The key is running, and only a finished key can be forgotten.' }
  if (standing.length > 0 && !effectsUndone)
    return {
      type: 'refuse',
      detail: `Its phases have had effects: ${listed(standing)}. The next request with this key would have them again. Undo them at the provider, and then say so (effectsUndone, or --effects-undone).`,
    }
  const ids = standing.map(({ id }) => id)
  return {
    type: 'write',
    given: { effectsUndone: ids },
    write: async (store, steering) => {
      const forgotten = await forgetFinishedKey(store, steering, ids)
      if (forgotten?.mayBeCached === false) onUncached()
      return forgotten?.row ?? null
    },
  }
}

function listed(effects: readonly EffectRow[]): string {
  const named = effects.slice(0, NAMED_EFFECTS).map(({ phase, reference, providerKey }) => {
    return `${phase} (${reference ?? providerKey})`
  })
  const more = effects.length - named.length
  return more > 0 ? `${named.join(', ')} and ${more} more` : named.join(', ')
}
