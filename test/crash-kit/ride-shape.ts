import type { PipelineShape } from '../../packages/crash-kit/src/history.js'

/** A ride with a keyed call, and one that may be made only once. */
export const RIDE_SHAPE: Pick<PipelineShape, 'points' | 'foreign'> = {
  points: ['started', 'ride_created', 'charge_created', 'driver_told', 'finished'],
  foreign: [
    { phase: 'charge_created', guarantee: 'keyed' },
    { phase: 'driver_told', guarantee: 'at_most_once' },
  ],
}
