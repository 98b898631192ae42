import type { AnyPhase } from './phase.js'
import type { PipelineDefinition } from './pipeline.js'

/** How far along the definition a recovery point is: -1 for `started`, and for a point that it does not have. */
export function orderOf({ phases }: PipelineDefinition, recoveryPoint: string): number {
  return recoveryPoint === 'finished'
    ? phases.length
    : phases.findIndex((phase) => phase.name === recoveryPoint)
}

/** The next phase of a key at this recovery point. */
export function phaseAfter(definition: PipelineDefinition, recoveryPoint: string): AnyPhase {
  return definition.phases[orderOf(definition, recoveryPoint) + 1] ?? definition.finish
}
