import { announce } from '../announce/announce.js'
import { ASIDE_LOCK_TIMEOUT_MS } from '../limits.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import { recordPipeline } from '../pipeline/record-pipeline.js'
import { recordPipelines, type PipelineToRecord } from '../storage/pipelines/record-pipelines.js'
import { describeThrown } from '../read-error.js'
import { explained } from '../storage/schema/explaining.js'
import type { AtomicPipeline, EngineContext } from './engine-context.js'

/** Writes down what an engine's pipelines look like, for tools that do not have their code. It is never needed to run them. */
export class PipelineRecorder {
  readonly #of: Recorded
  readonly #recorded = new Set<PipelineDefinition>()
  #recording: Promise<void> = Promise.resolve()
  /** What was last reported to have gone wrong. A database that is away is tried again and again. */
  #reported: string | null = null

  constructor(of: Recorded) {
    this.#of = of
  }

  /** Whether everything that the engine knows by now is recorded. */
  get isDone(): boolean {
    return this.#missing().length === 0
  }

  /** Records what is not recorded yet, one call after the other. What fails is reported, because no request depends on it. */
  record(): Promise<void> {
    this.#recording = this.#recording.then(() => this.#record())
    return this.#recording
  }

  async #record(): Promise<void> {
    const missing = this.#missing()
    if (missing.length === 0) return
    const { sessions, tables } = this.#of
    try {
      const rows = eachOnce(missing.map(([definition, kind]) => toRecord(this.#of, definition, kind)))
      await sessions.with('pipelines', (session) => {
        session.shortenLockTimeout(ASIDE_LOCK_TIMEOUT_MS)
        return recordPipelines({ session, tables }, rows)
      })
    } catch (thrown) {
      await this.#report(thrown)
      return
    }
    for (const [definition] of missing) this.#recorded.add(definition)
    this.#reported = null
  }

  #missing(): (readonly [PipelineDefinition, Kind])[] {
    const { registry, atomicPipelines } = this.#of
    const pipelines = registry.definitions.map((each) => [each, 'pipeline'] as const)
    const atomic = [...atomicPipelines.keys()].map((each) => [each, 'atomic'] as const)
    return [...pipelines, ...atomic].filter(([definition]) => !this.#recorded.has(definition))
  }

  async #report(thrown: unknown): Promise<void> {
    const error = await explained(this.#of, thrown, 'recorder')
    // A pool may throw anything, and nobody waits for this.
    const message = describeThrown(error)
    if (message === this.#reported) return
    this.#reported = message
    announce('pawl:warning', () => ({ message: `${NOT_RECORDED} ${message}`, error }))
  }
}

type Kind = PipelineToRecord['kind']

/** The parts of an engine that it needs. */
type Recorded = Pick<EngineContext, 'sessions' | 'tables' | 'registry' | 'settings' | 'namespace'> & {
  readonly atomicPipelines: ReadonlyMap<PipelineDefinition, AtomicPipeline>
}

function toRecord(
  { settings, namespace }: Recorded,
  definition: PipelineDefinition,
  kind: Kind,
): PipelineToRecord {
  const record = recordPipeline(definition, kind, settings, namespace)
  const { name: pipeline, version, definitionHash, kind: _, ...described } = record
  return { pipeline, version, definitionHash, kind, descriptionJson: JSON.stringify(described) }
}

/**
 * Several atomic handlers may be the same: a route that is declared by two apps, or for two hosts. One statement cannot write one row
 * twice. The first one is kept: those that keys are resumed by come before handlers.
 */
function eachOnce(rows: readonly PipelineToRecord[]): PipelineToRecord[] {
  const byName = new Map<string, PipelineToRecord>()
  for (const row of rows) {
    const name = JSON.stringify([row.pipeline, row.version, row.definitionHash])
    if (!byName.has(name)) byName.set(name, row)
  }
  return [...byName.values()]
}

const NOT_RECORDED =
  'The pipelines could not be recorded, so tools that do not have their code cannot explain them. Requests run as ever.'
