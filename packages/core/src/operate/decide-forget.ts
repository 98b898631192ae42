import type { Step } from '../engine/steer-key.js'
import type { EffectRow } from '../storage/effects/effect-row.js'
import { forgetFinishedKey } from '../storage/keys/forget-finished-key.js'
import type { KeyRow } from '../storage/keys/key-row.js'

/** As many effects as fit in a sentence. */
const NAMED_EFFECTS = 5

/** What is known of a key besides its row. */
export interface KnownOfKey {
  /** Its effects that nobody has undone. */
  readonly standing: readonly EffectRow[]
  /** Whether a person gave the response: what calls in doubt did is then nowhere on record. */
  readonly isAnswered: boolean
}

/** Whether a key may be deleted by hand. `onUncached`: called when it has been, and no engine can replay it from a cache. */
export function decideForget(
  row: KeyRow,
  { standing, isAnswered }: KnownOfKey,
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
  const doubt = effectsUndone ? null : doubtAbout(row, isAnswered)
  if (doubt !== null)
    return {
      type: 'refuse',
      detail: `${doubt}, and the next request with this key might make it again. Make sure at the provider that there is nothing, or undo it, and then say so (effectsUndone, or --effects-undone).`,
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

/** What may have happened without an effect on record. Returns null if nothing can have. */
function doubtAbout({ intent, trail }: KeyRow, isAnswered: boolean): string | null {
  const unknown = trail.find(({ outcomeUnknown }) => outcomeUnknown)
  if (unknown !== undefined) return `Nobody knows whether the call of phase '${unknown.point}' was executed`
  if (intent?.kind === 'called' || intent?.kind === 'calling')
    return `The call of phase '${intent.phase}' may have been made, and was not settled`
  return isAnswered ? 'A person answered it, so a call may have been made of which there is no record' : null
}

function listed(effects: readonly EffectRow[]): string {
  const named = effects.slice(0, NAMED_EFFECTS).map(({ phase, reference, providerKey }) => {
    return `${phase} (${reference ?? providerKey})`
  })
  const more = effects.length - named.length
  return more > 0 ? `${named.join(', ')} and ${more} more` : named.join(', ')
}
