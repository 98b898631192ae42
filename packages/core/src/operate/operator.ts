import type { Pool } from 'pg'
import type { ReaperCounts } from '../background/reaper.js'
import type { JsonValue } from '../pipeline/json-value.js'
import type { StuckReason } from '../pipeline/outcome.js'
import type { AnyPipeline } from '../pipeline/pipeline.js'
import type { Because } from '../because.js'
import type { Erasure, ErasureReport } from '../erase/erasure.js'
import type {
  Intervention,
  InterventionView,
  KeyName,
  KeyReference,
  SteerOptions,
} from '../engine/intervention.js'
import type { KeyView } from '../engine/key-view.js'
import type { RecordedPipeline } from '../pipeline/recorded-pipeline.js'
import type {
  DuplicatesWindow,
  Findings,
  InterventionFilter,
  InterventionPage,
  ScopeDuplicates,
} from './audit.js'
import type { Flow } from './flow.js'
import type { NextMove } from './next-move.js'
import type { Reading, ReadingOptions, TableSize } from './reading.js'
import type { KeyPage } from './page-keys.js'
import type { Wipe } from '../pipeline/settings.js'
import type { Protection } from '../protection.js'
import type { Layout } from '../storage/schema/layout.js'

/** How a key is forgotten. */
export interface ForgetOptions extends SteerOptions {
  /**
   * You have undone at the provider what the key's phases had done there, such as by a refund. The effects stay on record, with the
   * moment at which you said so. Default: you have not.
   */
  readonly effectsUndone?: boolean
}

/** What the operator found out about a call whose outcome was unknown. */
export type CallVerdict =
  /** It was not executed: it may be made again, under a new provider key. */
  | { readonly type: 'not_executed'; readonly phase?: string }
  /**
   * It was executed, and this is what it would have returned: `settle` gets it. In both cases `phase` says which call is
   * meant; the verdict is refused where another call is in doubt.
   */
  | { readonly type: 'executed'; readonly result: JsonValue; readonly phase?: string }

/** A count that stops at a bound, so that it stays cheap on a large table. */
export interface BoundedCount {
  readonly count: number
  /** The true number is this or more. */
  readonly isAtLeast: boolean
}

/** Unfinished keys of one pipeline, version and recovery point that also skipped the same phases before it. */
export interface UnfinishedGroup {
  readonly pipeline: string
  readonly version: number
  readonly recoveryPoint: string
  /** For people, such as `shipment_booked (refunded skipped)`: see `KeyView.point`. */
  readonly point: string
  /** Somebody runs them. */
  readonly held: number
  /** They rest until some later moment. */
  readonly backingOff: number
  /** Nobody runs them, and they are due: work for a completer. */
  readonly unattended: number
  readonly stuck: number
  readonly oldestCreatedAt: Date
}

/** How things stand. */
export interface StatusReport {
  /** The database's clock. */
  readonly at: Date
  /** How the tables are stored. */
  readonly layout: Layout
  readonly unfinished: readonly UnfinishedGroup[]
  /** There are more than 100 000 of them, and the groups leave some out. */
  readonly unfinishedIsPartial: boolean
  readonly stuckBy: readonly { readonly reason: StuckReason; readonly count: number }[]
  readonly finished: BoundedCount
  /** Finished keys that the reaper may delete. */
  readonly expired: BoundedCount
  /**
   * The key that has been due longest with nobody to run it; null if there is none. If it has been due for minutes, no
   * completer is running. Keys of atomic handlers do not count: they wait for their client.
   */
  readonly oldestUnattended: (KeyName & { readonly sinceMs: number }) | null
  /**
   * Running keys that were tried more than once and are older than ten minutes: how many, and the oldest of them. Null if
   * there is none. Each retry may look normal, and yet none may ever succeed: look at `lastError`.
   */
  readonly retriedForLong: (KeyName & { readonly sinceMs: number; readonly count: number }) | null
  readonly jobs: {
    readonly waiting: BoundedCount
    readonly dead: BoundedCount
    /** How long the oldest due job has been due. If that is minutes, no relay is running. */
    readonly oldestDueMs: number | null
  }
}

/** Which keys to list. All given conditions have to hold. */
export interface KeyFilter {
  /** `unfinished` (the default): running and stuck. `unattended`: running, due, and held by nobody. */
  readonly status?: 'unfinished' | 'running' | 'unattended' | 'stuck' | 'finished'
  readonly pipeline?: string
  readonly version?: number
  readonly recoveryPoint?: string
  readonly scope?: string
  readonly stuckReason?: StuckReason
  /** Reserved longer ago than this. */
  readonly olderThanMs?: number
  /** At most this many, oldest first (finished ones: first to expire first). Default 50, at most 1000. */
  readonly limit?: number
}

/** A settled foreign effect. */
export interface EffectView {
  readonly effectId: string
  readonly keyId: string
  readonly scope: string
  readonly key: string
  readonly pipeline: string
  readonly version: number
  readonly phase: string
  readonly effectName: string
  /** The idempotency key that was sent to the provider. */
  readonly providerKey: string
  /** The provider's own name for it; null where the pipeline declares no `reference`. */
  readonly reference: string | null
  readonly fence: number
  readonly at: Date
  /** When an operator said that it was undone; null otherwise. */
  readonly undoneAt: Date | null
}

/** A job that waits to be delivered, or was given up. */
export interface JobView {
  readonly jobId: string
  readonly name: string
  readonly keyId: string
  readonly payload: JsonValue
  readonly attempts: number
  readonly runAfter: Date
  readonly lastError: string | null
  readonly createdAt: Date
  /** Why its payload and last error are not shown; null where they are. */
  readonly sealed: string | null
  /** Null while it is still to be delivered. */
  readonly deadAt: Date | null
}

/** A key with everything that is known about it. */
export interface KeyReport {
  readonly key: KeyView
  readonly effects: readonly EffectView[]
  readonly jobs: readonly JobView[]
  readonly interventions: readonly InterventionView[]
}

/** The response with which an operator answers a request that nobody will run any more. */
export interface OperatorResponse {
  /** 200 to 499, and not one that asks the client to come back (408, 425, 429). */
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON; left out for no body. */
  readonly body?: JsonValue
  /** How long it is replayed. Default 400 days, as long as effects are kept: after that, a retry runs again. */
  readonly retentionMs?: number
  /** What is gone from the row along with it: the pipeline's setting of that name. Default `nothing`. */
  readonly wipe?: Wipe
}

/** Which dead jobs to deliver again. */
export type DeadJobs =
  | { readonly jobIds: readonly string[] }
  | { readonly name: string }
  | { readonly all: true }

/** One thing the doctor looked at. */
export interface Finding {
  /** Such as `schema` or `indexes`. Stable. */
  readonly check: string
  readonly level: 'ok' | 'warning' | 'error'
  /** What was found. */
  readonly detail: string
  /** What to do about it; null where all is well. */
  readonly remedy: string | null
}

/**
 * Looks at keys and jobs, and steers them. It needs the database but no pipelines: the application's engines run whatever
 * it sets going.
 */
export interface Operator {
  status(): Promise<StatusReport>
  /** Where requests stand, pipeline by pipeline, and how fast they move. Cheap enough to be asked every few seconds. */
  flow(): Promise<Flow>
  /** Every definition that engines have recorded, by name and version. */
  pipelines(): Promise<readonly RecordedPipeline[]>
  list(filter?: KeyFilter): Promise<readonly KeyView[]>
  /**
   * The same keys a page at a time, without what their clients sent and got. `after`: the `next` of the page before.
   *
   * @example
   * for (let after: string | null = null; ;) {
   *   const { keys, next } = await operator.page({ status: 'stuck', ...(after !== null && { after }) })
   *   show(keys)
   *   if (next === null) break
   *   after = next
   * }
   */
  page(filter?: KeyFilter & { readonly after?: string }): Promise<KeyPage>
  /** What would happen if a key were resumed now, and why. Nothing is changed. Returns null when there is no such key. */
  next(of: KeyReference): Promise<NextMove | null>
  /** Returns null when there is no such key. */
  show(of: KeyReference): Promise<KeyReport | null>
  /**
   * The same for somebody who is to see what the client sent and got: that they looked, and why, is noted in `interventions` first.
   * It is up to the caller to show nobody else what `show` returns.
   */
  reveal(of: KeyReference, because: Because): Promise<KeyReport | null>
  /**
   * Looks for what a text may name: a key by its id, a scope and a key, a key in any scope, a scope, a provider's reference or a
   * provider key. Without indexes made by hand, it looks back only so far for the last three, and says how far:
   * docs/operations-reference.md has the indexes.
   */
  find(text: string): Promise<Findings>
  /** What people did to keys and jobs, the latest first. */
  interventions(filter?: InterventionFilter): Promise<InterventionPage>
  /** Who sent most duplicates in a window of the last day, where engines count them. */
  duplicates(window: DuplicatesWindow): Promise<readonly ScopeDuplicates[]>
  /**
   * Stuck → running: the completer, or the client's next retry, goes on from the recovery point. Attempts and age start
   * again. A call whose outcome is unknown makes it stuck again, unless `verdict` says what became of it.
   */
  unstick(
    of: KeyReference,
    because: Because,
    verdict?: CallVerdict,
    options?: SteerOptions,
  ): Promise<Intervention>
  /** Takes the lease away from a holder that is known to be dead, instead of waiting for it to run out. */
  revoke(of: KeyReference, because: Because, options?: SteerOptions): Promise<Intervention>
  /** Stuck → finished, with the operator's own response. No phase runs any more. */
  answer(
    of: KeyReference,
    because: Because,
    response: OperatorResponse,
    options?: SteerOptions,
  ): Promise<Intervention>
  /**
   * Keeps a finished key, and with it the answer that retries get, until a later moment: never an earlier one, and at most
   * 400 days from now.
   */
  extend(of: KeyReference, because: Because, until: Date, options?: SteerOptions): Promise<Intervention>
  /**
   * Deletes a finished key, as if its time were over: the next request with this key runs again. It is refused where
   * effects of the key stand, unless you say that they were undone.
   */
  forget(of: KeyReference, because: Because, options?: ForgetOptions): Promise<Intervention>
  /** The same as `engine.erase`. It knows no pipelines: pass `windowMs` where a provider remembers keys for more than a day. */
  erase(erasure: Erasure): Promise<ErasureReport>
  /** Jobs that were given up, oldest first. */
  deadJobs(options?: { readonly name?: string; readonly limit?: number }): Promise<readonly JobView[]>
  /** Has dead jobs delivered again, as if they were new. Returns how many. */
  requeue(jobs: DeadJobs, because: Because): Promise<number>
  /**
   * Runs one round of the reaper. `effectRetentionMs`: the value your reaper has, if you have set it; default 400 days,
   * as there.
   */
  reap(because: Because, options?: { readonly effectRetentionMs?: number }): Promise<ReaperCounts>
  /** What is still in flight under a version. When nothing is, the version need not be registered any more. */
  drain(pipeline: string, version: number): Promise<readonly UnfinishedGroup[]>
  /**
   * Whether there is a key of that pipeline, of any version: a misspelt name has nothing in flight, either. Of finished
   * keys, it looks at the 10 000 that expire last.
   */
  hasKeysOf(pipeline: string): Promise<boolean>
  /**
   * Settled effects of a window, `to` not included, oldest first. Read in batches, with no connection held in between.
   * End the window in the past: an effect of this very moment may commit after that part has been read.
   */
  effects(window: { readonly from: Date; readonly to: Date }): AsyncIterable<EffectView>
  /** How many keys that were reserved before a moment are running or stuck. */
  countUnfinished(before: Date): Promise<BoundedCount>
  /** How large the tables are. Where they are distributed: those of the server that is connected to. */
  sizes(): Promise<readonly TableSize[]>
  /**
   * Numbers for gauges. They are read once per interval by one process, which keeps them for all others in `pawl.readings`; whoever
   * may not write there reads them for itself. Returns null while another process reads for the very first time.
   */
  reading(options?: ReadingOptions): Promise<Reading | null>
  /** Looks for what commonly goes wrong. `pipelines`: those the application registers. */
  doctor(options?: { readonly pipelines?: readonly AnyPipeline<never>[] }): Promise<readonly Finding[]>
}

/** Where the operator works. */
export interface OperatorOptions {
  readonly pool: Pool
  /**
   * The engine's `protect`. Without it, protected values are not shown, and the response of `answer` and the result of a verdict are
   * stored as they are. Default: none.
   */
  readonly protect?: Protection
  /** The schema of the framework's tables. Default `pawl`. */
  readonly schema?: string
  /**
   * That of your engines, where they have one: erased names become hashes that are made with it, and `reconcile` finds erased
   * references by it. Default: a random one for each erasure.
   */
  readonly hashSecret?: string
}
