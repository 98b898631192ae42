import type { Answerable } from './answer.js'
import { FIRST_POLL_MS, MAX_POLL_MS } from './limits.js'
import type { WaitingRoom } from './waiting-room.js'

/** How a duplicate waits for the first request, or a client for what runs in the background. */
export interface Wait {
  readonly room: WaitingRoom
  readonly keyHash: string
  /** 0 means not at all. */
  readonly waitMs: number
  /** Nobody waits for the answer any more. */
  readonly clientIsGone: () => boolean
}

/** Asks for the outcome, and again while somebody else runs the key, until the wait is over. */
export async function awaitOutcome(ask: () => Promise<Answerable>, wait: Wait): Promise<Answerable> {
  const until = performance.now() + wait.waitMs
  for (let pollMs = FIRST_POLL_MS; ; pollMs = Math.min(pollMs * 2, MAX_POLL_MS)) {
    const outcome = await ask()
    const leftMs = until - performance.now()
    const isUnderWay = outcome.type === 'in_flight' || outcome.type === 'enqueued'
    if (!isUnderWay || leftMs <= 0 || wait.clientIsGone()) return outcome
    // Jitter, so that a crowd of duplicates does not ask all at once.
    await wait.room.news(wait.keyHash, Math.min(leftMs, pollMs * (0.5 + Math.random() / 2)))
  }
}
