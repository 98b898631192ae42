import { setTimeout as delay } from 'node:timers/promises'
import { KitError } from '../kit-error.js'
import { BLOCKED_POLL_MS, SIGNAL_TIMEOUT_MS } from '../limits.js'

/** Looks again and again until there is something to see. `what` names it in the error for when there never is. */
export async function poll<T>(what: string, look: () => Promise<T | null>): Promise<T> {
  const giveUpAt = performance.now() + SIGNAL_TIMEOUT_MS
  for (;;) {
    const seen = await look()
    if (seen !== null) return seen
    if (performance.now() > giveUpAt)
      throw new KitError('PAWL_KIT_TIMEOUT', `Waited ${SIGNAL_TIMEOUT_MS} ms for ${what}.`)
    await delay(BLOCKED_POLL_MS)
  }
}
