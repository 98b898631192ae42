import { setImmediate as turn } from 'node:timers/promises'
import { announce } from '../announce/announce.js'
import type { EngineContext } from '../engine/engine-context.js'
import { SEALED_JOB_REST_MS } from '../limits.js'
import { backOffMs } from '../run/back-off.js'
import { recordError } from '../run/record-error.js'
import type { ClaimedJob } from '../storage/jobs/claiming.js'
import { deleteJobs } from '../storage/jobs/delete-jobs.js'
import { returnJobs, type ReturnedJob } from '../storage/jobs/return-jobs.js'
import type { Store } from '../storage/statement.js'
import { askStore } from './ask-store.js'
import { forEachShard } from './for-each-shard.js'
import type { Delivery } from './sink.js'

/** What one round of a relay did. */
export type RelayCounts = {
  /** Without those that were given back before their turn had come. */
  readonly claimed: number
  readonly delivered: number
  readonly failed: number
  readonly dead: number
  /** Delivered or failed after the claim had run out: somebody else has the job now. */
  readonly lost: number
}

export type CountingJobs = { -readonly [Name in keyof RelayCounts]: number }

/** What became of a claimed job. */
export type JobEnd = Delivery | typeof NOT_BEGUN

/** Its turn did not come: it is given back as it was. */
export const NOT_BEGUN = { type: 'not_begun' } as const

type Failed = ReturnedJob & { readonly job: ClaimedJob; readonly error: unknown; readonly lastError: string }

/** Records what became of the jobs of one claim: one statement after the other, so that a round does not take the pool from requests. */
export class JobResults {
  readonly #context: EngineContext
  readonly #claimId: string
  readonly #counts: CountingJobs
  readonly #maxAttempts: number
  #written: Promise<unknown> = Promise.resolve()
  #jobs: ClaimedJob[] = []
  #ends: JobEnd[] = []
  #next: Promise<void> | null = null

  constructor(context: EngineContext, claimId: string, counts: CountingJobs, maxAttempts: number) {
    this.#context = context
    this.#claimId = claimId
    this.#counts = counts
    this.#maxAttempts = maxAttempts
  }

  /** By themselves: if that fails, it fails for no other job. */
  alone(jobs: readonly ClaimedJob[], ends: readonly JobEnd[]): Promise<void> {
    return this.#inTurn(() => this.#record(jobs, ends))
  }

  /**
   * Together with all that end in the same turn of the event loop, or before it is their turn to be recorded. Where each of many
   * scopes has a job or two, that is one statement instead of one for each.
   */
  together(jobs: readonly ClaimedJob[], ends: readonly JobEnd[]): Promise<void> {
    this.#jobs.push(...jobs)
    this.#ends.push(...ends)
    this.#next ??= turn().then(() => this.#inTurn(() => this.#recordAll()))
    return this.#next
  }

  #inTurn(write: () => Promise<void>): Promise<void> {
    const own = this.#written.then(write, write)
    this.#written = own
    return own
  }

  #recordAll(): Promise<void> {
    const [jobs, ends] = [this.#jobs, this.#ends]
    this.#jobs = []
    this.#ends = []
    this.#next = null
    return this.#record(jobs, ends)
  }

  /** Deletes the jobs that were delivered, gives the others back, and announces and counts both. */
  async #record(jobs: readonly ClaimedJob[], ends: readonly JobEnd[]): Promise<void> {
    const ended = jobs.map((job, index) => ({ job, end: ends[index] ?? NOT_BEGUN }))
    const delivered = ended.filter(({ end }) => end.type === 'delivered').map(({ job }) => job)
    const failed = ended.flatMap(({ job, end }) => (end.type === 'failed' ? [this.#failed(job, end)] : []))
    const notBegun = ended.filter(({ end }) => end.type === 'not_begun').map(({ job }) => untouched(job))
    const claimId = this.#claimId
    const deleted = await this.#forEachShard(delivered, (store, some) => deleteJobs(store, claimId, some))
    const given = await this.#forEachShard([...failed, ...notBegun], (store, some) =>
      returnJobs(store, claimId, some),
    )
    const returned = new Set(given)
    const known = failed.filter(({ id }) => returned.has(id))
    const dead = known.filter((job) => job.dead)
    const counts = this.#counts
    counts.claimed -= notBegun.length
    counts.delivered += deleted.length
    counts.dead += dead.length
    counts.failed += known.length - dead.length
    counts.lost += delivered.length - deleted.length + failed.length - known.length
    for (const { job, error, lastError, dead: isDead } of known) {
      const { id: jobId, name, keyId, attempts } = job
      if (isDead) announce('pawl:job_dead', () => ({ jobId, name, keyId, attempts, lastError }))
      else announce('pawl:job_failed', () => ({ jobId, name, keyId, attempts, error }))
    }
  }

  /** Has a statement act on these jobs, if there are any. Returns the ids of those that were still ours. */
  async #forEachShard<Job extends { readonly scope: string }>(
    jobs: readonly Job[],
    act: (store: Store, jobs: readonly Job[]) => Promise<string[]>,
  ): Promise<string[]> {
    if (jobs.length === 0) return []
    return askStore(this.#context, (store) => forEachShard(store, jobs, (some) => act(store, some)))
  }

  #failed(job: ClaimedJob, { error, dead }: Extract<Delivery, { type: 'failed' }>): Failed {
    const { sealed } = job
    // A process that has the key may be about to come. Not below one: with none, later jobs of its key would overtake it.
    const attempts = sealed === null ? job.attempts : Math.max(1, job.attempts - 1)
    const isDead = sealed === null && (dead === true || attempts >= this.#maxAttempts)
    const lastError = recordError(error, this.#context.redact)
    const afterMs = sealed === null ? backOffMs(attempts) : SEALED_JOB_REST_MS
    return { ...nameOf(job), job, error, attempts, afterMs, lastError, dead: isDead }
  }
}

/** As if it had not been claimed: its delivery was not begun. It stays due, so that later jobs of its key wait for it. */
function untouched(job: ClaimedJob): ReturnedJob {
  return { ...nameOf(job), attempts: job.attempts - 1, afterMs: null, lastError: null, dead: false }
}

const nameOf = ({ id, scope, keyId, seq }: ClaimedJob) => ({ id, scope, keyId, seq })
