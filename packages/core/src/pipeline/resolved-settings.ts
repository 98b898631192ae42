import { PawlError } from '../errors.js'
import { LEASE_SLACK_MS, SHORT_RETENTION_MS } from '../limits.js'
import { ownerOf } from './check-pipeline.js'
import { phaseAfter } from './phase-order.js'
import type { PipelineDefinition } from './pipeline.js'
import {
  checkTimeoutsFitLease,
  type PipelineSettings,
  resolveSettings,
  type ResolvedPhaseSettings,
  type ResolvedPipelineSettings,
} from './settings.js'

interface Entry {
  readonly pipeline: ResolvedPipelineSettings
  readonly phases: ReadonlyMap<string, ResolvedPhaseSettings>
}

/** Every setting of every registered pipeline and phase, with defaults filled in and checked against each other. */
export class ResolvedSettings {
  readonly #defaults: PipelineSettings
  readonly #entries = new Map<PipelineDefinition, Entry>()

  constructor(defaults: PipelineSettings, definitions: readonly PipelineDefinition[]) {
    this.#defaults = defaults
    for (const definition of definitions) this.add(definition)
  }

  /** Adds a definition that was not known at construction. */
  add(definition: PipelineDefinition): void {
    this.#entries.set(definition, resolveEntry(this.#defaults, definition))
  }

  pipeline(definition: PipelineDefinition): ResolvedPipelineSettings {
    return this.#entry(definition).pipeline
  }

  /** Of all pipelines. */
  get all(): readonly ResolvedPipelineSettings[] {
    return [...this.#entries.values()].map(({ pipeline }) => pipeline)
  }

  phase(definition: PipelineDefinition, phase: string): ResolvedPhaseSettings {
    const settings = this.#entry(definition).phases.get(phase)
    if (settings === undefined) throw new TypeError(`no phase '${phase}' in pipeline '${definition.name}'`)
    return settings
  }

  /** The lease that a key at this recovery point is held under: that of the next phase. */
  leaseMsAt(definition: PipelineDefinition, recoveryPoint: string): number {
    return this.phase(definition, phaseAfter(definition, recoveryPoint).name).leaseMs
  }

  /**
   * The longest lease that is granted here to a key of this pipeline. If a row was written in the future and its lease
   * ends later than this from now, the clock that granted it has gone back since, and the lease is over.
   */
  leaseBoundMs(definition: PipelineDefinition): number {
    const leases = [...this.#entry(definition).phases.values()].map(({ leaseMs }) => leaseMs)
    return Math.max(...leases) + LEASE_SLACK_MS
  }

  #entry(definition: PipelineDefinition): Entry {
    const entry = this.#entries.get(definition)
    if (entry === undefined) throw new TypeError(`pipeline '${definition.name}' is not registered`)
    return entry
  }
}

function resolveEntry(defaults: PipelineSettings, definition: PipelineDefinition): Entry {
  const pipeline = resolveSettings(defaults, definition.settings)
  const phases = new Map<string, ResolvedPhaseSettings>()
  for (const phase of [...definition.phases, definition.finish]) {
    const settings = resolveSettings(defaults, definition.settings, phase.settings)
    checkTimeoutsFitLease(ownerOf(definition.name, phase.name), settings)
    phases.set(phase.name, settings)
  }
  checkRetention(definition, pipeline.retentionMs)
  return { pipeline, phases }
}

/**
 * If a key were forgotten here before the provider forgets it, a retry would be sent again and swallowed there, or
 * doubled here.
 */
function checkRetention(definition: PipelineDefinition, retentionMs: number): void {
  for (const phase of definition.phases) {
    if (phase.kind === 'foreign' && phase.guarantee === 'keyed' && phase.windowMs > retentionMs) {
      throw new PawlError(
        'PAWL_INVALID_PIPELINE',
        `${ownerOf(definition.name, phase.name).where}: retentionMs is ${retentionMs}; it must not be shorter than ` +
          `windowMs, which is ${phase.windowMs}.`,
      )
    }
  }
  if (retentionMs < SHORT_RETENTION_MS) {
    process.emitWarning(
      `pipeline '${definition.name}': retentionMs is ${retentionMs}. A client that retries later than that causes a second effect.`,
    )
  }
}
