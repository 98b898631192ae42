import { type History, KIT, type PipelineShape, type Told, type Violation } from '../history.js'
import type { CleanRun } from './clean-run.js'
import { grantsOf } from './grants.js'
import { keyWrites } from './key-writes.js'

/** Nobody is sent away without a fault, unless the pipeline does so by itself. */
export function toldWithoutAFault(
  history: History,
  _shape: PipelineShape,
  clean: CleanRun | null,
): Violation[] {
  const isQuiet = !hasFaultStruck(history)
  return history.told
    .filter(({ outcome, disturbed }) => !disturbed && clean?.told.has(outcome.type) !== true)
    .filter((told) => !isExplained(history, told, isQuiet))
    .map(({ actor, outcome }) => ({
      rule: 'told',
      title: 'without a fault, nobody is sent away',
      detail: `${actor} was told '${outcome.type}'${whyOf(outcome)}, and no fault had struck${isQuiet ? '' : ' it'}.`,
    }))
}

function isExplained(history: History, { outcome }: Told, isQuiet: boolean): boolean {
  switch (outcome.type) {
    // These are of this very execution: what struck another one is no reason.
    case 'unavailable':
    case 'refused':
      return false
    case 'gone':
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

/** The dead are told nothing: they show by their calls, by a lease that ran out, and by the kit's help with that. */
function hasFaultStruck(history: History): boolean {
  const told = new Set(history.told.map(({ execution }) => execution))
  return (
    history.told.some(({ disturbed }) => disturbed) ||
    history.calls.some(({ execution }) => !told.has(execution)) ||
    keyWrites(history).some(({ actor }) => actor === KIT) ||
    grantsOf(history).some(({ how, write }) => how === 'taken_over' && write.before?.leaseUntilMs !== null)
  )
}

function whyOf(outcome: Told['outcome']): string {
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
