import type { StuckReason } from '../pipeline/outcome.js'
import type { FinishPhase, ForeignPhase, LocalPhase } from '../pipeline/phase.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import type { JsonValue } from '../pipeline/json-value.js'
import { type KeyRow, previousCommitMs } from '../storage/key-row.js'

/** What to do next with a key. */
export type Step =
  | { readonly do: 'run_local'; readonly phase: LocalPhase }
  | { readonly do: 'finish'; readonly phase: FinishPhase }
  /** `declareFirst`: say durably that the call is about to be made, because it must not be made twice unasked. */
  | { readonly do: 'call'; readonly phase: ForeignPhase; readonly declareFirst: boolean }
  | { readonly do: 'settle'; readonly phase: ForeignPhase; readonly result: JsonValue }
  /** Ask the provider. `absentCountsInMs`: from when on "absent" may be believed; 0 means now. */
  | { readonly do: 'reconcile'; readonly phase: ForeignPhase; readonly absentCountsInMs: number }
  /** The outcome of its call is not known, and the phase says how to go on without. */
  | {
      readonly do: 'go_on'
      readonly phase: ForeignPhase
      readonly run: NonNullable<ForeignPhase['whenUnknown']>
    }
  | { readonly do: 'stick'; readonly phase: ForeignPhase; readonly reason: StuckReason }

/**
 * Decides from what is stored and the database's clock alone, so that a resumed run and an unbroken one cannot differ.
 */
export function nextStep(
  definition: PipelineDefinition,
  row: Pick<KeyRow, 'recoveryPoint' | 'intent' | 'trail' | 'createdMs'>,
  nowMs: number,
): Step {
  const phase = nextPhase(definition, row.recoveryPoint)
  switch (phase.kind) {
    case 'local':
      return { do: 'run_local', phase }
    case 'finish':
      return { do: 'finish', phase }
    case 'foreign':
      return nextForeignStep(phase, row, nowMs)
  }
}

function nextPhase(
  definition: PipelineDefinition,
  recoveryPoint: string,
): LocalPhase | ForeignPhase | FinishPhase {
  if (recoveryPoint === 'started') return definition.phases[0] ?? definition.finish
  const index = definition.phases.findIndex((phase) => phase.name === recoveryPoint)
  if (index === -1)
    throw new TypeError(`'${recoveryPoint}' is not a recovery point of pipeline '${definition.name}'`)
  return definition.phases[index + 1] ?? definition.finish
}

function nextForeignStep(
  phase: ForeignPhase,
  row: Pick<KeyRow, 'intent' | 'trail' | 'createdMs'>,
  nowMs: number,
): Step {
  const intent = row.intent?.phase === phase.name ? row.intent : null
  if (intent?.kind === 'called') return { do: 'settle', phase, result: intent.result }

  switch (phase.guarantee) {
    case 'keyed': {
      const mayHaveBeenMadeFrom = intent?.kind === 'not_made' ? intent.atMs : previousCommitMs(row)
      if (nowMs - mayHaveBeenMadeFrom <= phase.windowMs) return { do: 'call', phase, declareFirst: false }
      // The provider may have forgotten the key by now: sent again, it would execute again.
      if (phase.reconcile !== null) return { do: 'reconcile', phase, absentCountsInMs: 0 }
      return { do: 'stick', phase, reason: 'window_passed' }
    }
    case 'queryable': {
      if (intent?.kind !== 'calling') return { do: 'call', phase, declareFirst: true }
      return {
        do: 'reconcile',
        phase,
        absentCountsInMs: Math.max(0, Math.ceil(intent.deadlineMs + phase.quietForMs - nowMs)),
      }
    }
    case 'at_most_once': {
      if (intent?.kind !== 'calling') return { do: 'call', phase, declareFirst: true }
      if (phase.whenUnknown !== null) return { do: 'go_on', phase, run: phase.whenUnknown }
      return { do: 'stick', phase, reason: 'unknown_outcome' }
    }
  }
}
