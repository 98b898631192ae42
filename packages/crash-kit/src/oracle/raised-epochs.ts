import type { History, PipelineShape } from '../history.js'
import { keyWrites } from './key-writes.js'

/** How often it was said of this phase's call that it had not been executed, and may be made under another key. */
export function raisedEpochs(history: History, { points }: PipelineShape, phase: string): number {
  const previous = points[points.indexOf(phase) - 1]
  return keyWrites(history).filter(
    ({ op, before, after }) =>
      op === 'UPDATE' && before.recoveryPoint === previous && after.effectEpoch > before.effectEpoch,
  ).length
}
