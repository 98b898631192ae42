import type { Transaction } from 'kysely'
import type { JsonValue } from '../pipeline/json-value.js'

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
  /** The job must not be delivered before this many milliseconds have passed; 0 for at once. */
  readonly runAfterMs: number
  /** The W3C `traceparent` of the key's first request, for the queue to carry on; null where that was not traced. */
  readonly traceparent: string | null
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
