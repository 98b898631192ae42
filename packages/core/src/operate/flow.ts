import type { RecordedPipeline } from '../pipeline/recorded-pipeline.js'
import type { StatusReport } from './operator.js'

/** Where requests stand, pipeline by pipeline, and how fast they move. */
export interface Flow extends Pick<
  StatusReport,
  'at' | 'stuckBy' | 'oldestUnattended' | 'finished' | 'expired' | 'jobs'
> {
  readonly pipelines: readonly PipelineFlow[]
  /** There are more unfinished keys than were counted: see `StatusReport.unfinishedIsPartial`. */
  readonly isPartial: boolean
}

/** One version of a pipeline. */
export interface PipelineFlow {
  readonly name: string
  readonly version: number
  /** Null where no engine has recorded it. */
  readonly recorded: RecordedPipeline | null
  /**
   * By recovery point: `started` first, then in the order of the phases, and points that the definition does not have last. No key
   * stands at `finished`, which is there for its rate.
   */
  readonly points: readonly PointFlow[]
  /** Requests that finished, per minute, over the last five. */
  readonly finishedPerMinute: number
}

/** A recovery point: the keys that stand there, and those that went through. */
export interface PointFlow {
  readonly point: string
  readonly held: number
  readonly backingOff: number
  readonly unattended: number
  readonly stuck: number
  /** Of the keys that stand there; null if there is none. */
  readonly oldestCreatedAt: Date | null
  /** Keys that reached the point, per minute, over the last five; of keys that have finished. */
  readonly reachedPerMinute: number
  /** How long they took from the point before to this one, in the middle; null if there was none. */
  readonly medianMs: number | null
}
