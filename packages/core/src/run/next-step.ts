import type { StuckReason } from '../pipeline/outcome.js'
import type { AnyPhase, FinishPhase, ForeignPhase, LocalPhase } from '../pipeline/phase.js'
import { orderOf, phaseAfter } from '../pipeline/phase-order.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import type { JsonValue } from '../pipeline/json-value.js'
import { type Intent, type KeyRow, previousCommitMs } from '../storage/keys/key-row.js'

/** What to do next with a key. */
export type Step =
  | { readonly do: 'run_local'; readonly phase: LocalPhase }
  | { readonly do: 'finish'; readonly phase: FinishPhase }
  /** `declareFirst`: declare durably that the call is about to be made, because it must not be made twice unasked. */
  | { readonly do: 'call'; readonly phase: ForeignPhase; readonly declareFirst: boolean }
  | { readonly do: 'settle'; readonly phase: ForeignPhase; readonly result: JsonValue }
  /**
   * Ask the provider. `absentCountsInMs`: how long until "absent" may be believed. 0 means now; null means that the call
   * was declared by another server's clock, so its time has to pass here first.
   */
  | { readonly do: 'reconcile'; readonly phase: ForeignPhase; readonly absentCountsInMs: number | null }
  /** The outcome of its call is not known, and the phase says how to go on without it. */
  | {
      readonly do: 'go_on'
      readonly phase: ForeignPhase
      readonly run: NonNullable<ForeignPhase['whenUnknown']>
    }
  | { readonly do: 'mark_stuck'; readonly phase: ForeignPhase; readonly reason: StuckReason }
  /** Something is known of a call that belongs to a phase other than the next one: whatever ran now would run past it. */
  | { readonly do: 'stop_at_call'; readonly phase: AnyPhase; readonly call: Intent }

/** Decides only from what is stored and the database's clock, so that a resumed run and an unbroken one cannot differ. */
export function nextStep(
  definition: PipelineDefinition,
  row: Pick<KeyRow, 'recoveryPoint' | 'intent' | 'trail' | 'createdMs' | 'server'>,
  nowMs: number,
): Step {
  const phase = nextPhase(definition, row.recoveryPoint)
  const { intent } = row
  if (intent !== null && intent.phase !== phase.name && !isToBeCarried(definition, phase, intent)) {
    return { do: 'stop_at_call', phase, call: intent }
  }
  switch (phase.kind) {
    case 'local':
      return { do: 'run_local', phase }
    case 'finish':
      return { do: 'finish', phase }
    case 'foreign':
      return nextForeignStep(phase, row, nowMs)
  }
}

/**
 * Once a person has said what came of a call, the local phases before it run again, carrying the verdict along. A foreign
 * phase does not: a row holds what is known of one call only.
 */
function isToBeCarried(definition: PipelineDefinition, next: AnyPhase, intent: Intent): boolean {
  const isSaid = intent.kind === 'not_made' || (intent.kind === 'called' && intent.said === true)
  return isSaid && next.kind === 'local' && orderOf(definition, intent.phase) > orderOf(definition, next.name)
}

function nextPhase(definition: PipelineDefinition, recoveryPoint: string): AnyPhase {
  const isKnown = recoveryPoint === 'started' || definition.phases.some(({ name }) => name === recoveryPoint)
  if (!isKnown)
    throw new TypeError(`'${recoveryPoint}' is not a recovery point of pipeline '${definition.name}'`)
  return phaseAfter(definition, recoveryPoint)
}

function nextForeignStep(
  phase: ForeignPhase,
  row: Pick<KeyRow, 'intent' | 'trail' | 'createdMs' | 'server'>,
  nowMs: number,
): Step {
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
      if (phase.whenUnknown !== null) return { do: 'go_on', phase, run: phase.whenUnknown }
      return { do: 'mark_stuck', phase, reason: 'unknown_outcome' }
    }
  }
}
