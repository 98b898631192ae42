import type { StuckReason } from '../pipeline/outcome.js'
import type { BoundedCount } from './operator.js'

/** Numbers for gauges: how many of what there are now. */
export interface Reading {
  /** When they were read, on the database's clock. */
  readonly at: Date
  /** How long ago that was when it was handed out: it is older than asked for where nobody has been able to read since. */
  readonly ageMs: number
  /** Unfinished keys, by where they stand. */
  readonly unfinished: readonly UnfinishedAt[]
  /** There are more of them than were counted: see `StatusReport.unfinishedIsPartial`. */
  readonly isPartial: boolean
  readonly stuckBy: readonly { readonly reason: StuckReason; readonly count: number }[]
  /** For how long the key has been due that has been due longest with nobody to run it; null if there is none. */
  readonly oldestUnattendedMs: number | null
  /** Keys that were tried more than once, for more than ten minutes. */
  readonly retriedForLong: number
  readonly finished: BoundedCount
  /** Finished keys that the reaper may delete. */
  readonly expired: BoundedCount
  /** For how long the reaper could have deleted the one that expired first; null if there is none. */
  readonly oldestExpiredMs: number | null
  readonly jobs: {
    readonly waiting: BoundedCount
    readonly dead: BoundedCount
    readonly oldestDueMs: number | null
  }
  readonly tables: readonly TableSize[]
}

/** Unfinished keys of one pipeline, version and recovery point. */
export interface UnfinishedAt {
  readonly pipeline: string
  readonly version: number
  readonly recoveryPoint: string
  readonly held: number
  readonly backingOff: number
  readonly unattended: number
  readonly stuck: number
}

/** How large a table is, with its indexes and partitions, as the server's statistics say. */
export interface TableSize {
  readonly table: string
  /** Estimated. */
  readonly rows: number
  /** Rows that are gone, and whose space a vacuum makes available again. Estimated. */
  readonly deadRows: number
  readonly bytes: number
  /** Null if never since the statistics were reset. */
  readonly lastVacuumAt: Date | null
}

/** How old a reading may be. */
export interface ReadingOptions {
  /** It is read again, by one process for all, when it is as old as this. Default 15 s, at least 1 s. */
  readonly everyMs?: number
}
