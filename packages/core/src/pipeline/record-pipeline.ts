import type { PipelineDefinition } from './pipeline.js'
import type { AnyPhase } from './phase.js'
import type { RecordedPhase, RecordedPipeline } from './recorded-pipeline.js'
import type { ResolvedSettings } from './resolved-settings.js'
import type { ResolvedPhaseSettings } from './settings.js'

/** What an engine writes down of a definition: everything that decides what a resume does, and nothing of the code. */
export function recordPipeline(
  definition: PipelineDefinition,
  kind: RecordedPipeline['kind'],
  settings: ResolvedSettings,
  namespace: string,
): Omit<RecordedPipeline, 'recordedAt'> {
  const { name, version, hash: definitionHash } = definition
  const { maxAttempts, maxAgeMs, retentionMs, commits } = settings.pipeline(definition)
  const phases = [...definition.phases, definition.finish].map((phase) =>
    recordPhase(phase, settings.phase(definition, phase.name)),
  )
  return {
    name,
    version,
    definitionHash,
    kind,
    namespace,
    phases,
    maxAttempts,
    maxAgeMs,
    retentionMs,
    commits,
  }
}

function recordPhase(
  phase: AnyPhase,
  { leaseMs, callTimeoutMs }: Pick<ResolvedPhaseSettings, 'leaseMs' | 'callTimeoutMs'>,
): RecordedPhase {
  const { name, kind } = phase
  const conditional = kind !== 'finish' && phase.when !== null
  if (kind !== 'foreign') return { name, kind, conditional, ...NO_CALL, leaseMs }
  const { guarantee, effectName, reconcile, whenUnknown } = phase
  return {
    name,
    kind,
    conditional,
    guarantee,
    effectName,
    windowMs: guarantee === 'keyed' ? phase.windowMs : null,
    quietForMs: guarantee === 'queryable' ? phase.quietForMs : null,
    canReconcile: reconcile !== null,
    goesOnWhenUnknown: whenUnknown !== null,
    callTimeoutMs,
    leaseMs,
  }
}

const NO_CALL = {
  guarantee: null,
  effectName: null,
  windowMs: null,
  quietForMs: null,
  canReconcile: false,
  goesOnWhenUnknown: false,
  callTimeoutMs: null,
} as const
