import type { Because } from '../because.js'

/** What is to be erased, by whom and why. */
export interface Erasure extends Because {
  readonly scope: string
  /**
   * Only what is known to belong to this key, which a dead job of a key that was deleted before may not be. Default: everything of the
   * scope.
   */
  readonly key?: string
  /**
   * An effect younger than this is kept, together with its key, so that a retry is answered and does not have it again. Default: the
   * longest window of the registered pipelines' providers, and a day at least.
   */
  readonly windowMs?: number
  /** Also erases younger ones: a retry of such a key then runs again. Default: off. */
  readonly recentEffects?: boolean
  /** Also erases jobs that are still to be delivered: they then never are. Default: off. */
  readonly undeliveredJobs?: boolean
  /** Reports what would be erased, and changes nothing. Default: off. */
  readonly dryRun?: boolean
}

/** Why something is still there. */
export type KeptBecause =
  /** A request runs, or is to be resumed. */
  | 'running'
  /** A person has to decide about the key first. */
  | 'stuck'
  /** The effect is younger than `windowMs`. */
  | 'recent_effect'
  /** The job is still to be delivered, or was staged by a key of which this is said. */
  | 'undelivered'
  /** A row of the application refers to the key, or a trigger or policy of the application keeps it. */
  | 'referenced'
  /** Somebody else has the row locked, or was changing it. */
  | 'locked'

/** Something that an erasure had to keep. Erase again once the reason is gone. */
export interface Kept {
  readonly what: 'key' | 'effect' | 'job' | 'intervention' | 'usage'
  /** The id of the row; of what a scope has used of its limits, the name of the table. */
  readonly id: string
  /** The Idempotency-Key, or the name of the job; null where neither is known. */
  readonly name: string | null
  readonly why: KeptBecause
  /** When the reason ends by itself; null if that is not known. */
  readonly until: Date | null
}

/** What an erasure did. */
export interface ErasureReport {
  /** Nothing had to be kept. */
  readonly complete: boolean
  /** What the record calls the scope: an HMAC-SHA-256 with `hashSecret`; without one, its SHA-256. */
  readonly scopeHash: string
  readonly erased: {
    /** Finished keys that were deleted, with inputs, states and answers. */
    readonly keys: number
    /** Effects whose scope, key and reference were replaced by hashes. */
    readonly effects: number
    /** Jobs that were deleted. */
    readonly jobs: number
    /** Records of interventions that lost their key, reason and detail, and whose scope was replaced by a hash. */
    readonly interventions: number
  }
  readonly keptCount: number
  /** The first 1000 of them. */
  readonly kept: readonly Kept[]
}
