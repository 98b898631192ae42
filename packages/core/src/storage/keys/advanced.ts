import { INTENT_PHASE } from './key-row.js'
import { epochMs, statusIs } from '../statement.js'

/** A foreign effect that a settled phase records. */
export interface Effect {
  readonly phase: string
  readonly effectName: string
  readonly providerKey: string
  readonly reference: string | null
}

/** What an advance returns. */
export interface Advanced {
  readonly nowMs: number
  readonly expiresMs: number | null
}

// The row has to be as the holder left it: its fence, its holder, its recovery point. `id` uses the primary key's index.
export const AS_LEFT = `k.id = $1::uuid AND k.fence = $2::bigint AND k.holder = $3::uuid
     AND k.recovery_point = $4 AND ${statusIs('running')}`

/**
 * What is known about a call is never cleared by another phase: the call belongs to this phase, or is carried on to a
 * later one because the holder knows about it. Anything else means that the row is not as the holder believes.
 */
export const intentIs = (own: string, carried: string): string =>
  `(k.intent IS NULL OR ${INTENT_PHASE} = ${own}::text OR ${INTENT_PHASE} = ${carried}::text)`

/** A carried intent stays, together with the epoch of its provider key. */
export const intentAfter = (carried: string): string => `
         intent = CASE WHEN ${INTENT_PHASE} = ${carried}::text THEN k.intent END,
         effect_epoch = CASE WHEN ${INTENT_PHASE} = ${carried}::text THEN k.effect_epoch ELSE 0 END`

export const trailWith = (
  parameter: string,
  skipped: string,
  outcome: Outcome = 'known',
): string => `k.trail || jsonb_build_array(jsonb_strip_nulls(
           jsonb_build_object('p', ${parameter}::text, 't', ${epochMs('clock_timestamp()')}, 'f', k.fence, 's', ${skipped}${outcome === 'unknown' ? `, 'u', true` : ''})))`

/** Whether it is known what became of the phase's call. */
export type Outcome = 'known' | 'unknown'

export const ADVANCED = `${epochMs('clock_timestamp()')} AS now_ms, ${epochMs('k.expires_at')} AS expires_ms`

/** What becomes of a call that we know about. */
export interface Carrying {
  /** The later phase that the call belongs to; null when we know of no call, or only of this phase's own. */
  readonly carriedCallOf: string | null
}

export function effectValues(effect: Effect): unknown[] {
  return [effect.phase, effect.effectName, effect.providerKey, effect.reference]
}

export function readAdvanced(row: Readonly<Record<string, string | null>>): Advanced {
  return {
    nowMs: Number(row['now_ms']),
    expiresMs: row['expires_ms'] == null ? null : Number(row['expires_ms']),
  }
}
