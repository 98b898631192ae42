import type { Step } from './step.js'
import type { Phases, Row } from './state.js'

/** The way to a state that should not exist. */
export interface Trace {
  readonly steps: readonly Step[]
  /** What is wrong at its end, and which guarantee says so. */
  readonly complaint: string
  readonly invariant: string
}

/** One line per step: who, what, and the row after it. */
export function printTrace({ steps, complaint, invariant }: Trace, phases: Phases): string {
  const lines = steps.map(({ by, what, next }, index) => {
    const cells = [
      String(index + 1).padStart(3),
      by.padEnd(8),
      what.padEnd(WHAT_WIDTH),
      printRow(next.row, phases),
    ]
    return cells.join('  ').trimEnd()
  })
  return [`${invariant}: refuted in ${steps.length} steps`, ...lines, `     ${complaint}`].join('\n')
}

/** Wide enough for the longest step. */
const WHAT_WIDTH = 46

function printRow(row: Row | null, phases: Phases): string {
  if (row === null) return 'no row'
  const { fence, holder, lease, status, intent, epoch } = row
  const point =
    row.point === 0
      ? 'started'
      : row.point === phases.length
        ? 'finished'
        : `${row.point} (${phases[row.point - 1]})`
  const call = intent === 'none' ? '' : `, ${intent}`
  const key = epoch === 0 ? '' : `, provider key ${epoch}`
  const state = status === 'stuck' ? ', stuck' : ''
  return `at ${point}, fence ${fence} of ${holder}, lease ${lease}${call}${key}${state}`
}
