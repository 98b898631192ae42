import type { InterventionView, KeyView } from '@pawl/core'
import { ConsoleError, type RefusalDetail } from './console-error.js'
import { summarize } from './views/shown-key.js'

/** What is told of the intervention of somebody who was first; its detail may have what a client was told. */
export function whoWasFirst(by: InterventionView | null): RefusalDetail['by'] {
  return by === null ? null : { action: by.action, actor: by.actor, reason: by.reason, at: by.at }
}

/** Whoever is second with a key that somebody deleted has nothing to look at any more. */
export function deleted(by: InterventionView | null): ConsoleError {
  const text =
    by === null
      ? 'The key is gone: it was deleted a moment ago.'
      : `Somebody was first: ${by.actor} did '${by.action}' at ${by.at.toISOString()}, and the key is gone.`
  return new ConsoleError('refused', text, { detail: { by: whoWasFirst(by), key: null } })
}

/** Nothing was changed: the key is not in a state for it, or somebody else was first. */
export function refusal(message: string, key: KeyView, by: InterventionView | null): ConsoleError {
  return new ConsoleError('refused', message, { detail: { by: whoWasFirst(by), key: summarize(key) } })
}
