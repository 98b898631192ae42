import type { EnqueueOutcome } from '@pawl/core'
import type { Answerable } from './answer.js'

/** How one request is enqueued. */
export interface Later {
  /** Where its status is, but for its id. */
  readonly statusUrl: string
  /** The client asked for it with `Prefer`. */
  readonly isPreferred: boolean
  /** How long the client waits for the response all the same. */
  readonly waitMs: number
}

/**
 * Enqueues a request. It may be asked again while the client waits for the response, which then is the
 * first one, and no replay.
 */
export function askLater(enqueue: () => Promise<EnqueueOutcome>, later: Later): () => Promise<Answerable> {
  const { statusUrl, isPreferred } = later
  let isFirst = false
  return async () => {
    const outcome = await enqueue()
    if (outcome.type === 'replayed' && isFirst) return { ...outcome, type: 'completed' }
    if (outcome.type !== 'enqueued') return outcome
    isFirst ||= outcome.fresh
    return { ...outcome, location: `${statusUrl}/${outcome.keyId}`, isPreferred }
  }
}
