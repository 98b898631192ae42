import { setTimeout as delay } from 'node:timers/promises'
import {
  BACKOFF_BASE_MS,
  BACKOFF_MAX_MS,
  TRANSACTION_RETRY_BASE_MS,
  TRANSACTION_RETRY_MAX_MS,
} from '../limits.js'

/** Full jitter: anywhere between nothing and the doubled pause, so that those who collided do not meet again. */
function jittered(baseMs: number, maxMs: number, failures: number): number {
  return Math.floor(Math.random() * Math.min(maxMs, baseMs * 2 ** Math.min(failures, 30)))
}

/** How long a key rests after its n-th failure in a row. Half of it is certain: a rest is the point. */
export function backOffMs(failures: number): number {
  const half = Math.min(BACKOFF_MAX_MS, BACKOFF_BASE_MS * 2 ** Math.min(failures, 30)) / 2
  return Math.floor(half + Math.random() * half)
}

/** The pause before a transaction is tried again. */
export async function pauseBeforeRetry(attempt: number): Promise<void> {
  await delay(jittered(TRANSACTION_RETRY_BASE_MS, TRANSACTION_RETRY_MAX_MS, attempt))
}
