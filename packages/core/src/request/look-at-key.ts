import { CLOCK_WENT_BACK_MS } from '../limits.js'
import { findKeyToReplay } from '../storage/keys/find-key.js'
import { findProgress, type KeyProgress } from '../storage/keys/find-progress.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import { askForKey, type NoAnswer } from './ask-for-key.js'
import type { RequestContext } from './request-context.js'

/** What is known of a key that requests wait for. */
export type KeyLook =
  /** There is nothing to do: somebody runs it, or it rests until it is due, in this time at the latest. */
  | { readonly type: 'busy'; readonly dueInMs: number }
  /** Whoever asks for it now runs it. */
  | { readonly type: 'idle' }
  /** It is finished, or stuck. `row`: for `decideFound`, which says to whom it may be told. */
  | { readonly type: 'answered'; readonly row: KeyRow }
  | { readonly type: 'gone' }
  | NoAnswer

/**
 * Looks how far a key has come, for all requests of a process that wait for it. Only the row of a key that is finished or stuck is
 * read as a whole, once.
 */
export function lookAtKey(engine: RequestContext, scope: string, key: string): Promise<KeyLook> {
  return askForKey<KeyLook>(engine, async (store) => {
    const progress = await findProgress(store, scope, key)
    if (progress === null) return { type: 'gone' }
    if (progress.status === 'running') return judge(progress)
    const row = await findKeyToReplay(store, scope, key)
    if (row === null) return { type: 'gone' }
    // A person has unstuck it meanwhile.
    return row.status === 'running' ? { type: 'moved' } : { type: 'answered', row }
  })
}

/** Where the clock has gone back, the decision is for whoever asks for the key, and knows its pipeline's leases. */
function judge({ leaseUntilMs, runAfterMs, updatedMs, nowMs }: KeyProgress): KeyLook {
  const clockWentBack = updatedMs > nowMs + CLOCK_WENT_BACK_MS
  const dueInMs = Math.max(leaseUntilMs ?? nowMs, runAfterMs ?? nowMs) - nowMs
  return dueInMs <= 0 || clockWentBack ? { type: 'idle' } : { type: 'busy', dueInMs }
}
