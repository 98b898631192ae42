import type { EnqueueOutcome } from '@pawl/core'
import type { FoundKey } from '@pawl/core/internal'
import type { Answerable } from './answer.js'
import type { AskEngine } from './await-outcome.js'

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
export function askLater(
  enqueue: (found: FoundKey | null) => Promise<EnqueueOutcome>,
  later: Later,
): AskEngine {
  const { statusUrl, isPreferred } = later
  let isFirst = false
  return async (found): Promise<Answerable> => {
    const outcome = await enqueue(found)
    if (outcome.type === 'replayed' && isFirst) return { ...outcome, type: 'completed' }
    if (outcome.type !== 'enqueued') return outcome
    isFirst ||= outcome.fresh
    return { ...outcome, location: `${statusUrl}/${outcome.keyId}`, isPreferred }
  }
}
