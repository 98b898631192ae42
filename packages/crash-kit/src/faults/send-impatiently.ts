import { sendOnce } from '../actors/send-once.js'
import type { Trial } from '../actors/trial.js'
import { RIVAL_LOCK_TIMEOUT_MS } from '../limits.js'

/** Sends the request as a rival that does not wait for the stopped actor's locks, since it would wait and retry for as long. */
export async function sendImpatiently(trial: Trial): Promise<void> {
  const impatient = { lockTimeoutMs: RIVAL_LOCK_TIMEOUT_MS, transactionRetries: 0 }
  const settings = Object.fromEntries(trial.environment.shape.points.map((point) => [point, impatient]))
  await sendOnce(trial, 'rival', { settings })
}
