import type { History, PipelineShape, Violation } from '../history.js'
import type { CleanRun } from './clean-run.js'
import { lastStates } from './key-writes.js'

/** Whether each phase that a key passed was skipped. */
export type Decisions = ReadonlyMap<string, boolean>

/** If the key was deleted and sent again, only the last time counts. */
export function decisionsOf(history: Pick<History, 'commits'>): Decisions {
  const last = [...lastStates(history).values()].at(-1)
  return new Map((last?.state.trail ?? []).map(({ p, s }) => [p, s === true]))
}

/** Lint: what a `when` decides depends on input and state only, so that it is the same in every run. */
export function sameDecisions(
  history: History,
  _shape: PipelineShape,
  clean: Pick<CleanRun, 'decisions'> | null,
): Violation[] {
  return clean === null ? [] : differentDecisions(clean.decisions, decisionsOf(history))
}

/** Phases that only one of the two runs passed say nothing about decisions. */
export function differentDecisions(clean: Decisions, here: Decisions): Violation[] {
  return [...here]
    .filter(([phase, skipped]) => clean.has(phase) && clean.get(phase) !== skipped)
    .map(([phase, skipped]) => {
      const detail =
        `'${phase}' ${skipped ? 'was skipped, but ran' : 'ran, but was skipped'} in a run without faults: its \`when\` ` +
        'looks at something besides input and state, or a phase before it returned another state.'
      return { rule: 'lint', title: 'a `when` decides the same in every run', detail }
    })
}
