import type { EnqueueOutcome } from '@pawl/core'
import type { Answerable } from './answer.js'

/** How one request is enqueued. */
export interface Later {
  /** The address of its status, without its id. */
  readonly statusUrl: string
  /** The client asked for it with `Prefer`. */
  readonly isPreferred: boolean
  /** How long the client waits for the response anyway. */
  readonly waitMs: number
}

/**
 * Enqueues a request. The returned function may be called again while the client waits for the response, which is then
 * the first one and not a replay.
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
