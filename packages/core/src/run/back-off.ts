import { setTimeout as delay } from 'node:timers/promises'
import {
  BACKOFF_BASE_MS,
  BACKOFF_MAX_MS,
  TRANSACTION_RETRY_BASE_MS,
  TRANSACTION_RETRY_MAX_MS,
} from '../limits.js'

/** Full jitter: anywhere between nothing and the doubled pause, so that runs that collided do not meet again. */
function jittered(baseMs: number, maxMs: number, failures: number): number {
  return Math.floor(Math.random() * Math.min(maxMs, baseMs * 2 ** Math.min(failures, 30)))
}

/** How long a key rests after its n-th failure in a row. */
export function backOffMs(failures: number): number {
  return jittered(BACKOFF_BASE_MS, BACKOFF_MAX_MS, failures)
}

/** The pause before a transaction is tried again. */
export async function pauseBeforeRetry(attempt: number): Promise<void> {
  await delay(jittered(TRANSACTION_RETRY_BASE_MS, TRANSACTION_RETRY_MAX_MS, attempt))
}
