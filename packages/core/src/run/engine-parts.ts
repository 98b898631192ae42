import type { Transaction } from 'kysely'
import type { KyselyFactory } from '../driver/kysely-driver.js'
import type { Bell } from '../bell.js'
import type { Environment } from './environment.js'
import type { LeaseKeeper } from './lease-keeper.js'
import type { JsonValue } from '../pipeline/json-value.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import type { RunningCall } from './call-provider.js'
import type { QuietCalls } from './quiet-calls.js'
import type { StrictMode } from './strict-mode.js'

/** A job as a stager gets it, inside the transaction of the phase that staged it. */
export interface JobToStage<DB> {
  /** The phase's transaction. Write the job with it. */
  readonly tx: Transaction<DB>
  /** Stable identity, the same at every delivery. */
  readonly id: string
  /** What `stage` was given. */
  readonly name: string
  /** What `stage` was given, as plain JSON. */
  readonly payload: JsonValue
  /** The key whose phase staged it. */
  readonly keyId: string
  /** Not to be delivered before this many milliseconds have passed; 0 for at once. */
  readonly runAfterMs: number
}

/**
 * Puts staged jobs straight into a queue that lives in the same database, instead of into `staged_jobs`.
 *
 * @example
 * const stager: Stager<Database> = {
 *   async stage({ tx, id, name, payload }) {
 *     await tx.insertInto('jobs').values({ id, name, payload: JSON.stringify(payload) }).execute()
 *   },
 * }
 */
export interface Stager<DB> {
  /** Writes the job with `tx` and nothing else: the phase may yet be rolled back, and run again. */
  stage(job: JobToStage<DB>): Promise<void>
}

/** What a run needs besides what reservation needs. */
export interface EngineParts {
  readonly env: Environment
  readonly kysely: KyselyFactory
  readonly keeper: LeaseKeeper
  readonly strict: StrictMode
  readonly quietCalls: QuietCalls
  readonly stager: Stager<never> | null
  /** Atomic handlers, as far as they are known: the completer forgets keys of theirs that nobody came back for. */
  readonly atomicDefinitions: Set<{
    readonly definition: PipelineDefinition
    readonly forgetAfterMs: number
    readonly leaseBoundMs: number
  }>
  /** Rung when a key was enqueued. */
  readonly enqueued: Bell
  /** Rung when jobs were committed to `staged_jobs`. */
  readonly staged: Bell
  /** Aborted when close() has waited long enough. */
  readonly stopping: AbortSignal
  /** The calls that run, to be aborted along with it. They are no listeners of it: each would look at all the others. */
  readonly calls: Set<RunningCall>
  /** Work that goes on after its execution has answered, such as a call that ignores its signal. */
  readonly afterwards: Set<Promise<void>>
}
