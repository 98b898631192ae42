import type { StuckReason } from '../pipeline/outcome.js'
import type { AnyPhase, Guarantee } from '../pipeline/phase.js'
import { type OrderedPhases, orderOf, phaseAfter } from '../pipeline/phase-order.js'
import type { JsonValue } from '../pipeline/json-value.js'
import { type Intent, type KeyRow, previousCommitMs } from '../storage/keys/key-row.js'

/** What the next step depends on, of a phase that an engine runs as of one that is only recorded. */
export type PhaseFacts =
  | { readonly kind: 'local'; readonly name: string }
  | ForeignFacts
  | { readonly kind: 'finish'; readonly name: string }

/** The same of a foreign phase. Of what may be null, it only matters whether it is. */
export interface ForeignFacts {
  readonly kind: 'foreign'
  readonly name: string
  readonly guarantee: Guarantee
  readonly windowMs: number
  readonly quietForMs: number
  readonly reconcile: unknown
  readonly whenUnknown: unknown
}

type Of<P extends PhaseFacts, Kind extends PhaseFacts['kind']> = Extract<P, { readonly kind: Kind }>

/** What to do next with a key. */
export type Step<P extends PhaseFacts = AnyPhase> =
  | { readonly do: 'run_local'; readonly phase: Of<P, 'local'> }
  | { readonly do: 'finish'; readonly phase: Of<P, 'finish'> }
  | ForeignStep<Of<P, 'foreign'>>
  /** Something is known of a call that belongs to a phase other than the next one: whatever ran now would run past it. */
  | { readonly do: 'stop_at_call'; readonly phase: P; readonly call: Intent }

type ForeignStep<P extends ForeignFacts> =
  /** `declareFirst`: declare durably that the call is about to be made, because it must not be made twice unasked. */
  | { readonly do: 'call'; readonly phase: P; readonly declareFirst: boolean }
  | { readonly do: 'settle'; readonly phase: P; readonly result: JsonValue }
  /**
   * Ask the provider. `absentCountsInMs`: how long until "absent" may be believed. 0 means now; null means that the call
   * was declared by another server's clock, so its time has to pass here first.
   */
  | { readonly do: 'reconcile'; readonly phase: P; readonly absentCountsInMs: number | null }
  /** The outcome of its call is not known, and the phase says how to go on without it. */
  | { readonly do: 'go_on'; readonly phase: P; readonly run: NonNullable<P['whenUnknown']> }
  | { readonly do: 'mark_stuck'; readonly phase: P; readonly reason: StuckReason }

/** What the next step depends on besides the phases. */
export type RowFacts = Pick<KeyRow, 'recoveryPoint' | 'intent' | 'trail' | 'createdMs' | 'server'>

/** Decides only from what is stored and the database's clock, so that a resumed run and an unbroken one cannot differ. */
export function nextStep<P extends PhaseFacts, F extends PhaseFacts>(
  definition: OrderedPhases<P, F> & { readonly name: string },
  row: RowFacts,
  nowMs: number,
): Step<P | F> {
  const phase: P | F = nextPhase(definition, row.recoveryPoint)
  const { intent } = row
  if (intent !== null && intent.phase !== phase.name && !isToBeCarried(definition, phase, intent)) {
    return { do: 'stop_at_call', phase, call: intent }
  }
  if (isKind(phase, 'foreign')) return nextForeignStep(phase, row, nowMs)
  if (isKind(phase, 'local')) return { do: 'run_local', phase }
  if (isKind(phase, 'finish')) return { do: 'finish', phase }
  throw new TypeError(`phase '${phase.name}' is of no kind that is known`)
}

function isKind<P extends PhaseFacts, Kind extends PhaseFacts['kind']>(
  phase: P,
  kind: Kind,
): phase is Of<P, Kind> {
  return phase.kind === kind
}

/**
 * Once a person has said what came of a call, the local phases before it run again, carrying the verdict along. A foreign
 * phase does not: a row holds what is known of one call only.
 */
function isToBeCarried(
  definition: OrderedPhases<PhaseFacts, PhaseFacts>,
  next: PhaseFacts,
  intent: Intent,
): boolean {
  const isSaid = intent.kind === 'not_made' || (intent.kind === 'called' && intent.said === true)
  return isSaid && next.kind === 'local' && orderOf(definition, intent.phase) > orderOf(definition, next.name)
}

/** Whether a key may stand at this recovery point and be run from there. */
export function isRecoveryPoint(
  { phases }: { readonly phases: readonly { readonly name: string }[] },
  recoveryPoint: string,
): boolean {
  return recoveryPoint === 'started' || phases.some(({ name }) => name === recoveryPoint)
}

function nextPhase<P extends PhaseFacts, F>(
  definition: OrderedPhases<P, F> & { readonly name: string },
  recoveryPoint: string,
): P | F {
  if (!isRecoveryPoint(definition, recoveryPoint))
    throw new TypeError(`'${recoveryPoint}' is not a recovery point of pipeline '${definition.name}'`)
  return phaseAfter(definition, recoveryPoint)
}

function nextForeignStep<P extends ForeignFacts>(phase: P, row: RowFacts, nowMs: number): ForeignStep<P> {
  const { intent } = row
  if (intent?.kind === 'called') return { do: 'settle', phase, result: intent.result }

  switch (phase.guarantee) {
    case 'keyed': {
      const mayHaveBeenMadeFrom = intent?.kind === 'not_made' ? intent.atMs : previousCommitMs(row)
      if (nowMs - mayHaveBeenMadeFrom <= phase.windowMs) return { do: 'call', phase, declareFirst: false }
      // The provider may have forgotten the key by now: if the call were sent again, it would be executed again.
      if (phase.reconcile !== null) return { do: 'reconcile', phase, absentCountsInMs: 0 }
      return { do: 'mark_stuck', phase, reason: 'window_passed' }
    }
    case 'queryable': {
      if (intent?.kind !== 'calling') return { do: 'call', phase, declareFirst: true }
      if (intent.server !== row.server) return { do: 'reconcile', phase, absentCountsInMs: null }
      return {
        do: 'reconcile',
        phase,
        absentCountsInMs: Math.max(0, Math.ceil(intent.deadlineMs + phase.quietForMs - nowMs)),
      }
    }
    case 'at_most_once': {
      if (intent?.kind !== 'calling') return { do: 'call', phase, declareFirst: true }
      const run: P['whenUnknown'] = phase.whenUnknown
      if (run != null) return { do: 'go_on', phase, run }
      return { do: 'mark_stuck', phase, reason: 'unknown_outcome' }
    }
  }
}
