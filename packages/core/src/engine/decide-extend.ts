import { DEFAULT_EFFECT_RETENTION_MS } from '../limits.js'
import { extendKey } from '../storage/keys/extend-key.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import type { Step } from './steer-key.js'

/** Whether a key may be kept until then. */
export function decideExtend(row: KeyRow, until: Date): Step {
  const { status, expiresMs, nowMs } = row
  if (status !== 'finished' || expiresMs === null)
    return {
      type: 'refuse',
      detail: `The key is ${status}, and only a finished key expires. An unfinished one is kept until it is finished.`,
    }
  const untilMs = until.getTime()
  // Whoever asks twice gets what they asked for.
  if (untilMs === expiresMs) return { type: 'nothing' }
  if (untilMs < expiresMs)
    return {
      type: 'refuse',
      detail: `It is kept until ${iso(expiresMs)} already, and extend never makes that earlier. To delete it, forget it.`,
    }
  // The effects of its phases would be gone before it.
  const mostMs = nowMs + DEFAULT_EFFECT_RETENTION_MS
  if (untilMs > mostMs)
    return {
      type: 'refuse',
      detail: `A key can be kept until ${iso(mostMs)} at most, which is for as long as effects are kept.`,
    }
  return {
    type: 'write',
    given: { until: iso(untilMs), expiredAt: iso(expiresMs) },
    write: (store, steering) => extendKey(store, steering, untilMs),
  }
}

const iso = (ms: number): string => new Date(ms).toISOString()
