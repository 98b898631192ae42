import type { History, PipelineShape } from '../history.js'
import { keyWrites } from './key-writes.js'

/** Returns how often this phase's call was found not to have been executed, so that it may be made under another key. */
export function raisedEpochs(history: History, { points }: PipelineShape, phase: string): number {
  const previous = points[points.indexOf(phase) - 1]
  return keyWrites(history).filter(
    ({ op, before, after }) =>
      op === 'UPDATE' && before.recoveryPoint === previous && after.effectEpoch > before.effectEpoch,
  ).length
}
