import type { PawlError } from '../errors.js'
import { CLOCK_WENT_BACK_MS } from '../limits.js'
import type { StuckReason } from '../pipeline/outcome.js'
import type { Guarantee } from '../pipeline/phase.js'
import { orderOf } from '../pipeline/phase-order.js'
import { ageMs, type KeyRow } from '../storage/keys/key-row.js'

/** What decides when a key may be taken over, and for how long it is tried. */
export interface Patience {
  /** If a row was written in the future, a lease that ends later than this from now counts as over. */
  readonly leaseBoundMs: number
  readonly maxAttempts: number
  readonly maxAgeMs: number
}

export type UnfinishedDecision =
  | { readonly type: 'held'; readonly leaseLeftMs: number }
  | { readonly type: 'rests'; readonly restMs: number }
  /** Whoever has the key to its values can go on, so it is not to be handed to a person either. */
  | { readonly type: 'sealed'; readonly error: PawlError }
  | { readonly type: 'mark_stuck'; readonly reason: StuckReason }
  | { readonly type: 'free' }

/**
 * Decides what may be done with a key that has neither an answer nor a person to wait for. Pure: the row says everything.
 * `onlyDue`: its back-off is waited for.
 */
export function decideUnfinished(
  row: KeyRow,
  { leaseBoundMs, maxAttempts, maxAgeMs }: Patience,
  onlyDue: boolean,
): UnfinishedDecision {
  const leaseLeftMs = (row.leaseUntilMs ?? row.nowMs) - row.nowMs
  const clockWentBack = row.updatedMs > row.nowMs + CLOCK_WENT_BACK_MS
  // A lease longer than any we grant may come from another deployment, unless the row is from the future.
  const isPlausible = leaseLeftMs <= leaseBoundMs || !clockWentBack
  if (leaseLeftMs > 0 && isPlausible) return { type: 'held', leaseLeftMs }
  const restMs = (row.runAfterMs ?? row.nowMs) - row.nowMs
  if (onlyDue && restMs > 0 && !clockWentBack) return { type: 'rests', restMs }
  if (row.sealed !== null) return { type: 'sealed', error: row.sealed }
  if (row.attempts >= maxAttempts) return { type: 'mark_stuck', reason: 'attempts_exhausted' }
  if (ageMs(row, row.nowMs) >= maxAgeMs) return { type: 'mark_stuck', reason: 'too_old' }
  return { type: 'free' }
}

/** Where a row continues, and with what: as it stands, or as an upgrade maps it. */
export interface Continuation {
  readonly recoveryPoint: string
  readonly intent: KeyRow['intent']
  readonly effectEpoch: number
  /** Null when it is unchanged. */
  readonly stateJson: string | null
}

/** What matters of a phase to what is known of a call. */
type CallFacts =
  | { readonly kind: 'local'; readonly name: string }
  | { readonly kind: 'foreign'; readonly name: string; readonly guarantee: Guarantee }

/**
 * A person has said that a later call was not made. If another call comes before it, the row has to hold what is known of
 * that one, so the verdict is forgotten: when its turn comes, the later call is made as one that nothing is known of. The
 * epoch that was raised for it goes too, or the earlier call would be sent under a different key than before.
 */
export function asItStands(
  row: Pick<KeyRow, 'recoveryPoint' | 'intent' | 'effectEpoch'>,
  { phases }: { readonly phases: readonly CallFacts[] },
): Continuation {
  const { recoveryPoint, intent, effectEpoch } = row
  const next = orderOf({ phases }, recoveryPoint) + 1
  const later = intent === null ? -1 : orderOf({ phases }, intent.phase)
  const phase = phases[later]
  const isForgotten =
    intent?.kind === 'not_made' &&
    phase?.kind === 'foreign' &&
    phase.guarantee !== 'keyed' &&
    phases.slice(next, Math.max(next, later)).some(({ kind }) => kind === 'foreign')
  return isForgotten
    ? { recoveryPoint, intent: null, effectEpoch: Math.max(0, effectEpoch - 1), stateJson: null }
    : { recoveryPoint, intent, effectEpoch, stateJson: null }
}
