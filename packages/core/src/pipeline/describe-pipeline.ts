import { sha256 } from '../sha256.js'
import type { Guarantee, Phase } from './phase.js'
import type { PipelineDefinition } from './pipeline.js'

/** One phase as `pipeline.describe()` shows it. */
export interface PhaseDescription {
  /** The recovery point that the phase leads to. */
  readonly name: string
  /** `local`: database work only. `foreign`: one foreign side effect. `finish`: the answer. */
  readonly kind: 'local' | 'foreign' | 'finish'
  /** Whether a `when` can skip it. */
  readonly conditional: boolean
  /** What the provider promises; null for phases without a foreign effect. */
  readonly guarantee: Guarantee | null
  /** The effect's part of the provider key; null for phases without a foreign effect. */
  readonly effectName: string | null
}

/**
 * A pipeline as data. Kept as a snapshot in your tests, it shows when the version has to be raised.
 *
 * @example
 * expect(createRide.describe()).toMatchSnapshot()
 */
export interface PipelineDescription {
  /** The pipeline's name. */
  readonly name: string
  /** The pipeline's version. */
  readonly version: number
  /** Changes exactly when rows in flight could not safely continue under this definition. */
  readonly definitionHash: string
  /** In order; the last one is `finished`. */
  readonly phases: readonly PhaseDescription[]
}

export function describePipeline(definition: PipelineDefinition): PipelineDescription {
  const { name, version, hash, phases } = definition
  return { name, version, definitionHash: hash, phases: [...phases.map(describePhase), FINISH_DESCRIPTION] }
}

/**
 * What rows in flight depend on: the order, names and kinds of phases, and what happens to an interrupted call.
 * Time-outs and the code inside phases may change without a new version.
 */
export function hashDefinition(name: string, version: number, phases: readonly Phase[]): string {
  const text = JSON.stringify([name, version, phases.map((phase) => Object.values(describePhase(phase)))])
  return sha256(text, 'hex').slice(0, 16)
}

/** A Mermaid state diagram: recovery points are the states, phases are the transitions between them. */
export function drawPipeline(definition: PipelineDefinition): string {
  const lines = ['stateDiagram-v2', '  [*] --> started: reserve']
  let from = 'started'
  for (const phase of definition.phases) {
    const how = phase.kind === 'local' ? 'local' : `call ${phase.effectName} (${phase.guarantee}), settle`
    lines.push(`  ${from} --> ${phase.name}: ${how}${phase.when === null ? '' : ', or skipped'}`)
    from = phase.name
  }
  lines.push(`  ${from} --> finished: respond`, '  finished --> [*]')
  return `${lines.join('\n')}\n`
}

const FINISH_DESCRIPTION: PhaseDescription = {
  name: 'finished',
  kind: 'finish',
  conditional: false,
  guarantee: null,
  effectName: null,
}

function describePhase(phase: Phase): PhaseDescription {
  return {
    name: phase.name,
    kind: phase.kind,
    conditional: phase.when !== null,
    guarantee: phase.kind === 'foreign' ? phase.guarantee : null,
    effectName: phase.kind === 'foreign' ? phase.effectName : null,
  }
}
