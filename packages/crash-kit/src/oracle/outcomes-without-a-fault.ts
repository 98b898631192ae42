import { type History, KIT, type PipelineShape, type ReturnedOutcome, type Violation } from '../history.js'
import type { CleanRun } from './clean-run.js'
import { grantsOf } from './grants.js'
import { keyWrites } from './key-writes.js'

/** Without a fault nobody is sent away, unless the pipeline does so by itself. */
export function outcomesWithoutAFault(
  history: History,
  _shape: PipelineShape,
  clean: CleanRun | null,
): Violation[] {
  const isQuiet = !hasFaultStruck(history)
  return history.outcomes
    .filter(({ outcome, disturbed }) => !disturbed && clean?.outcomeTypes.has(outcome.type) !== true)
    .filter((returned) => !isExplained(history, returned, isQuiet))
    .map(({ actor, outcome }) => ({
      rule: 'outcome',
      title: 'without a fault, nobody is sent away',
      detail: `${actor} got '${outcome.type}'${whyOf(outcome)}, but no fault had struck${isQuiet ? '' : ' it'}.`,
    }))
}

function isExplained(history: History, { outcome }: ReturnedOutcome, isQuiet: boolean): boolean {
  switch (outcome.type) {
    // These concern this very execution. A fault that struck another one is no reason.
    case 'unavailable':
    case 'refused':
    case 'limited':
      return false
    case 'gone':
    case 'expired':
      return keyWrites(history).some(({ op }) => op === 'DELETE')
    // These may follow from what a fault left behind.
    case 'retry_later':
    case 'stuck':
      return !isQuiet
    case 'completed':
    case 'replayed':
    case 'in_flight':
    case 'mismatch':
      return true
  }
}

/** A crashed execution has no outcome. It shows by its calls, by a lease that ran out, and by the kit's help with that. */
function hasFaultStruck(history: History): boolean {
  const returned = new Set(history.outcomes.map(({ execution }) => execution))
  return (
    history.outcomes.some(({ disturbed }) => disturbed) ||
    history.calls.some(({ execution }) => !returned.has(execution)) ||
    keyWrites(history).some(({ actor }) => actor === KIT) ||
    grantsOf(history).some(({ how, write }) => how === 'taken_over' && write.before?.leaseUntilMs !== null)
  )
}

function whyOf(outcome: ReturnedOutcome['outcome']): string {
  switch (outcome.type) {
    case 'retry_later':
      return ` at '${outcome.recoveryPoint}' (${outcome.reason}${because(outcome.error)})`
    case 'stuck':
      return ` at '${outcome.recoveryPoint}' (${outcome.reason})`
    case 'refused':
      return ` (${outcome.detail})`
    case 'unavailable':
      return ` (store${because(outcome.error)})`
    default:
      return ''
  }
}

function because(error: unknown): string {
  return error instanceof Error ? `: ${error.message}` : ''
}
