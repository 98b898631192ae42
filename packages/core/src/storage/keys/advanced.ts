import { HELD } from './hold.js'
import { type Intent, INTENT_PHASE } from './key-row.js'
import { epochMs, statusIs } from '../statement.js'

/** What an advance returns. */
export interface Advanced {
  readonly nowMs: number
  readonly expiresMs: number | null
  /** The declaration of the next call, if one was written. */
  readonly declared: Intent | null
}

/** The row has to be as the holder left it: its fence, its holder, its recovery point. */
export const AS_LEFT = `${HELD} AND k.recovery_point = $5 AND ${statusIs('running')}`

/**
 * What is known about a call is never cleared by another phase: the call belongs to this phase, or is carried on to a
 * later one because the holder knows about it. Anything else means that the row is not as the holder believes.
 */
export const intentIs = (own: string, carried: string): string =>
  `(k.intent IS NULL OR ${INTENT_PHASE} = ${own}::text OR ${INTENT_PHASE} = ${carried}::text)`

/** A carried intent stays, together with the epoch of its provider key. */
export const intentAfter = (carried: string): string => `
         intent = CASE WHEN ${INTENT_PHASE} = ${carried}::text THEN k.intent END, ${epochAfter(carried)}`

export const epochAfter = (carried: string): string =>
  `effect_epoch = CASE WHEN ${INTENT_PHASE} = ${carried}::text THEN k.effect_epoch ELSE 0 END`

/** "Now" is the moment that was just written: a write returns nothing that changes by itself. */
export const ADVANCED = `${epochMs('k.updated_at')} AS now_ms, ${epochMs('k.expires_at')} AS expires_ms`

/** What becomes of a call that we know about. */
export interface Carrying {
  /** The later phase that the call belongs to; null when we know of no call, or only of this phase's own. */
  readonly carriedCallOf: string | null
}

export function readAdvanced(row: Readonly<Record<string, string | null>>): Advanced {
  return {
    nowMs: Number(row['now_ms']),
    expiresMs: row['expires_ms'] == null ? null : Number(row['expires_ms']),
    declared: row['declared'] == null ? null : (JSON.parse(row['declared']) as Intent),
  }
}
