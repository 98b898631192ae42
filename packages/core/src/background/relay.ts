import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { announce } from '../announce/announce.js'
import {
  checkFunction,
  checkKnownOptions,
  checkTimerMs,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '../check-option.js'
import { PawlError } from '../errors.js'
import {
  ABORT_GRACE_MS,
  DEFAULT_DELIVER_TIMEOUT_MS,
  DEFAULT_JOB_MAX_ATTEMPTS,
  DEFAULT_RELAY_BATCH_SIZE,
  DEFAULT_RELAY_CONCURRENCY,
  DEFAULT_RELAY_CONCURRENCY_PER_SCOPE,
  DEFAULT_RELAY_POLL_MS,
  DELIVER_ALONE_AFTER,
  SEALED_JOB_REST_MS,
  MAX_INT32,
  RECONNECT_TRIES,
} from '../limits.js'
import { backOffMs } from '../run/back-off.js'
import { classifyError } from '../run/classify-error.js'
import type { Engine } from '../engine/engine.js'
import { contextOf, type EngineContext } from '../engine/engine-context.js'
import { recordError } from '../run/record-error.js'
import { tellingRights } from '../storage/schema/missing-right.js'
import type { Claimed } from '../storage/jobs/claim-jobs.js'
import type { ClaimedJob } from '../storage/jobs/claiming.js'
import type { DueJob } from '../storage/jobs/find-due-jobs.js'
import { deleteJobs } from '../storage/jobs/delete-jobs.js'
import { type FailedJob, returnJobs } from '../storage/jobs/return-jobs.js'
import type { Store } from '../storage/statement.js'
import { claimDueJobs } from './claim-due-jobs.js'
import { forEachShard } from './for-each-shard.js'
import { Places } from './places.js'
import { RecordsTogether } from './records-together.js'
import { ScopePass } from './scope-pass.js'
import { type Delivery, deliverTo, type Sink } from './sink.js'
import { groupByScope } from './turn-queue.js'
import { checkStopOptions, Poller, type Service, type StopOptions } from './service.js'

/** How a relay works. */
export interface RelayOptions {
  readonly sink: Sink
  /** Only jobs of these names; order is kept among them alone. Default: all. */
  readonly names?: readonly string[]
  /** The longest time between two looks. Default 1 s; a phase in this process that stages a job wakes it at once. */
  readonly pollMs?: number
  /** How many jobs are claimed at a time, and so how many one delivery takes at most. Default 100. */
  readonly batchSize?: number
  /** How many deliveries are under way at a time, each with jobs of one scope. Default 10. */
  readonly concurrency?: number
  /**
   * How many of these may be of one scope: one that hangs leaves the rest to the others. Default 1, so that the next jobs of a scope
   * gather for its next delivery.
   */
  readonly concurrencyPerScope?: number
  /**
   * A delivery takes jobs of several scopes, which fills the batches of a queue that takes many at once. A job that hangs, or makes the
   * sink throw, then holds up those that it is with, whosever they are. Default: false.
   */
  readonly mixScopes?: boolean
  /** How long a delivery may take. Default 30 s. */
  readonly deliverTimeoutMs?: number
  /** Deliveries of one job before it is dead. Default 25. */
  readonly maxAttempts?: number
}

/** What one round of a relay did. */
export type RelayCounts = {
  readonly claimed: number
  readonly delivered: number
  readonly failed: number
  readonly dead: number
  /** Delivered or failed after the claim had run out: somebody else has the job now. */
  readonly lost: number
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'createBackground: relay' }
const OPTION_NAMES = [
  'sink',
  'names',
  'pollMs',
  'batchSize',
  'concurrency',
  'concurrencyPerScope',
  'mixScopes',
  'deliverTimeoutMs',
  'maxAttempts',
] as const satisfies readonly (keyof RelayOptions)[]

/** `names` is null for all of them. */
type CheckedRelayOptions = Required<Omit<RelayOptions, 'names'>> & {
  readonly names: readonly string[] | null
}

/** A delivery that failed, with everything there is to say about it. */
type Failed = FailedJob & { readonly id: string; readonly job: ClaimedJob; readonly error: unknown }

type Counting = { -readonly [Name in keyof RelayCounts]: number }

/**
 * Hands staged jobs to a queue: claims them for a limited time, delivers with no transaction open, and deletes exactly
 * what was delivered. A process that dies in between leaves a claim that runs out, and its jobs are delivered again.
 */
export class Relay implements Service<RelayCounts> {
  readonly #context: EngineContext
  readonly #options: CheckedRelayOptions
  readonly #poller: Poller
  readonly #underWay = new Set<Promise<void>>()
  readonly #pass = new ScopePass<DueJob>()
  #places: Places
  #hurry = newHurry()
  /** When nothing was under way for the last time. */
  #idleAt = performance.now()
  /** The scope of the last job that was claimed alone: the others have their turn before its next one. */
  #lastAlone: string | null = null
  /** Scopes that had a turn while others, which were not looked at, had none. They let the others go first. */
  #hadTurn: readonly string[] = []
  #silence: (() => void) | null = null

  constructor(engine: Engine<never>, options: RelayOptions) {
    this.#context = contextOf(engine, 'createBackground')
    this.#options = checkOptions(options)
    this.#places = this.#newPlaces()
    this.#poller = new Poller({
      service: 'relay',
      pollMs: this.#options.pollMs,
      underWay: this.#underWay,
      round: async (stopping) => {
        const places = this.#places
        // When one is free again, the next round begins at once.
        if (stopping.aborted || places.free === 0) return { counts: null, more: false }
        const round = await this.#begin(places)
        // It is not idle while something is under way, and reports that when it ends.
        if (round.counts.claimed === 0) return { counts: places.isEmpty ? round.counts : null, more: false }
        const reported = this.#follow(round)
        // A stop that came meanwhile waits for the rounds.
        if (stopping.aborted) await reported
        return { counts: null, more: places.free > 0 && !round.isRestUnderWay }
      },
    })
  }

  start(): void {
    this.#silence ??= this.#context.staged.listen(() => this.#poller.wake())
    this.#poller.start()
  }

  async stop(options: StopOptions = {}): Promise<void> {
    checkStopOptions(options)
    // Before the wait: a relay that is started again meanwhile gets its own.
    this.#silence?.()
    this.#silence = null
    const hurry = this.#hurry
    this.#hurry = newHurry()
    this.#places = this.#newPlaces()
    await this.#poller.stop(options)
    hurry.abort(new PawlError('PAWL_CLOSING', 'The relay was stopped.'))
  }

  /** It waits for its deliveries, and has places of its own. */
  async runOnce(): Promise<RelayCounts> {
    const { counts, ended } = await this.#begin(this.#newPlaces())
    await ended
    return counts
  }

  /** Reports a round once its deliveries have ended. Rounds go on meanwhile, so that one that hangs holds up no other scope. */
  #follow({ counts, ended }: BegunRound): Promise<void> {
    const reported = ended
      .then(
        () => announce('pawl:round', () => ({ service: 'relay', counts })),
        (error: unknown) => announce('pawl:round_failed', () => ({ service: 'relay', error, failures: 1 })),
      )
      .finally(() => this.#underWay.delete(reported))
    this.#underWay.add(reported)
    return reported
  }

  /** Claims jobs, and begins to deliver those of each scope by themselves. */
  async #begin(places: Places): Promise<BegunRound> {
    const { deliverTimeoutMs, maxAttempts, mixScopes } = this.#options
    const hurry = this.#hurry.signal
    const counts = { ...NOTHING }
    const claimId = randomUUID()
    const { jobs, isAlone, isRestUnderWay, claimedAt } = await this.#claim(claimId, places)
    counts.claimed = jobs.length
    const closed = jobs.filter((job) => job.sealed !== null)
    const open = jobs.filter((job) => job.sealed === null)
    const worn = open.filter((job) => job.attempts > maxAttempts)
    const able = open.filter((job) => job.attempts <= maxAttempts)
    // One after the other: many jobs that are delivered alone must not take the pool away from requests.
    let written: Promise<unknown> = this.#record(
      claimId,
      [...worn, ...closed],
      [...worn.map(neverEnded), ...closed.map(({ sealed }): Delivery => ({ type: 'failed', error: sealed }))],
      counts,
    )
    const inTurn = (write: () => Promise<void>): Promise<void> => {
      const own = written.then(write, write)
      written = own
      return own
    }
    const together = new RecordsTogether((group, deliveries) =>
      inTurn(() => this.#record(claimId, group, deliveries, counts)),
    )
    const ends: Promise<unknown>[] = [written]
    // After a process was paused, others may be delivering its jobs: the claim has to outlast the delivery.
    if (performance.now() - claimedAt >= deliverTimeoutMs) {
      counts.lost += able.length
    } else {
      const ofScopes = mixScopes ? new Map([[MIXED, able]]) : groupByScope(able)
      for (const [scope, lot] of ofScopes) {
        const deliver = groups(lot).map(async (group) => {
          const deliveries = await deliverTo(this.#options.sink, group, deliverTimeoutMs, hurry)
          if (isDeliveredAlone(group)) await inTurn(() => this.#record(claimId, group, deliveries, counts))
          else await together.record(group, deliveries)
        })
        ends.push(this.#inPlace(places, scope, isAlone, allOf(deliver)))
      }
    }
    return { counts, isRestUnderWay, ended: allOf(ends) }
  }

  /** A job that is delivered alone holds all places, so that it uses up no other job's attempts if it kills the process. */
  async #inPlace(places: Places, scope: string, isAlone: boolean, delivered: Promise<void>): Promise<void> {
    const count = isAlone ? Math.max(1, places.free) : 1
    for (let nth = 0; nth < count; nth++) places.take(scope)
    try {
      await delivered
    } finally {
      for (let nth = 0; nth < count; nth++) places.giveBack(scope)
      if (places.isEmpty) this.#idleAt = performance.now()
      // Not for rounds that began before a stop: those after it have places of their own.
      if (places === this.#places) this.#poller.wake()
    }
  }

  #newPlaces(): Places {
    const { concurrency, concurrencyPerScope, mixScopes } = this.#options
    return new Places(concurrency, mixScopes ? concurrency : concurrencyPerScope)
  }

  /** `claimedAt`: the claim begins no earlier than this. Waiting for a connection does not count. */
  async #claim(id: string, places: Places): Promise<Claimed & { readonly claimedAt: number }> {
    const { batchSize: limit, names, deliverTimeoutMs, mixScopes } = this.#options
    const claimMs = deliverTimeoutMs * CLAIM_PER_DELIVERY
    const now = performance.now()
    if (places.isEmpty) this.#idleAt = now
    const claim = {
      id,
      forMs: claimMs + ABORT_GRACE_MS,
      names,
      limit,
      aloneAfter: DELIVER_ALONE_AFTER,
      // Where there is always something under way, it does not wait forever.
      mayBeAlone: places.isEmpty || now - this.#idleAt > claimMs,
      without: mixScopes ? [] : places.fullScopes,
      scopes: mixScopes ? limit : places.free,
      last: this.#lastAlone,
    }
    const hadTurn = this.#hadTurn
    this.#hadTurn = []
    return this.#store(async (store) => {
      const claimedAt = performance.now()
      const claimed = await claimDueJobs(
        store,
        { ...claim, without: [...claim.without, ...hadTurn] },
        this.#pass,
      )
      const isOnlyTheirs = hadTurn.length > 0 && claimed.jobs.length === 0
      const got = isOnlyTheirs ? await claimDueJobs(store, claim, this.#pass) : claimed
      this.#lastAlone = got.isAlone ? (got.jobs[0]?.scope ?? null) : null
      if (!got.sawAll) this.#hadTurn = [...new Set(got.jobs.map(({ scope }) => scope))]
      return { ...got, isRestUnderWay: got.isRestUnderWay && hadTurn.length === 0, claimedAt }
    })
  }

  /** Deletes the jobs that were delivered, gives the others back, and announces and counts both. */
  async #record(
    claimId: string,
    jobs: readonly ClaimedJob[],
    deliveries: readonly Delivery[],
    counts: Counting,
  ): Promise<void> {
    const delivered: ClaimedJob[] = []
    const failed: Failed[] = []
    for (const [index, job] of jobs.entries()) {
      const delivery = deliveries[index]
      if (delivery?.type === 'failed') failed.push(this.#failed(job, delivery))
      else delivered.push(job)
    }
    const deleted =
      delivered.length === 0
        ? []
        : await this.#store((store) =>
            forEachShard(store, delivered, (group) => deleteJobs(store, claimId, group)),
          )
    const returned =
      failed.length === 0
        ? []
        : await this.#store((store) =>
            forEachShard(store, failed, (group) => returnJobs(store, claimId, group)),
          )
    const dead = failed.filter((job) => job.dead && returned.includes(job.id))
    counts.delivered += deleted.length
    counts.dead += dead.length
    counts.failed += returned.length - dead.length
    counts.lost += jobs.length - deleted.length - returned.length
    for (const { job, error, lastError, dead: isDead } of failed.filter(({ id }) => returned.includes(id))) {
      const { id: jobId, name, keyId, attempts } = job
      if (isDead) announce('pawl:job_dead', () => ({ jobId, name, keyId, attempts, lastError }))
      else announce('pawl:job_failed', () => ({ jobId, name, keyId, attempts, error }))
    }
  }

  #failed(job: ClaimedJob, { error, dead }: Extract<Delivery, { type: 'failed' }>): Failed {
    const { id, scope, keyId, seq, sealed } = job
    // A process that has the key may be about to come. Not below one: with none, later jobs of its key would overtake it.
    const attempts = sealed === null ? job.attempts : Math.max(1, job.attempts - 1)
    const isDead = sealed === null && (dead === true || attempts >= this.#options.maxAttempts)
    const lastError = recordError(error, this.#context.redact)
    const afterMs = sealed === null ? backOffMs(attempts) : SEALED_JOB_REST_MS
    return { job, error, id, scope, keyId, seq, attempts, afterMs, lastError, dead: isDead }
  }

  /** Asks again where the answer was lost: every statement finds what its first try did. */
  async #store<T>(statement: (store: Store) => Promise<T>): Promise<T> {
    const context = this.#context
    const { sessions, tables } = context
    for (let attempt = 1; ; attempt++) {
      try {
        return await tellingRights(context, () =>
          sessions.with('relay', (session) => statement({ session, tables })),
        )
      } catch (error) {
        // Where the database's default is not READ COMMITTED, two relays that meet are a conflict.
        const mayPass = classifyError(error) === 'conflict'
        if (!mayPass || attempt >= RECONNECT_TRIES) throw error
      }
    }
  }
}

/** A round whose deliveries may still be under way. */
interface BegunRound {
  readonly counts: RelayCounts
  readonly isRestUnderWay: boolean
  readonly ended: Promise<void>
}

/** Stands for all scopes where a delivery may have jobs of several. */
const MIXED = ''

/** Waits for all of them, also when one has failed. */
async function allOf(ends: readonly Promise<unknown>[]): Promise<void> {
  const failure = (await Promise.allSettled(ends)).find((end) => end.status === 'rejected')
  if (failure !== undefined) throw failure.reason
}

const NOTHING: RelayCounts = { claimed: 0, delivered: 0, failed: 0, dead: 0, lost: 0 }

/** The claim lasts twice as long as the delivery, which leaves time to record the result. */
const CLAIM_PER_DELIVERY = 2

/** Aborted when a stop has waited long enough. */
function newHurry(): AbortController {
  const hurry = new AbortController()
  // Every delivery listens, and Node takes more than ten listeners for a leak.
  setMaxListeners(0, hurry.signal)
  return hurry
}

/** When one job makes the sink throw, its whole batch fails with it, so jobs that failed often are delivered alone. */
function groups(jobs: readonly ClaimedJob[]): ClaimedJob[][] {
  const together = jobs.filter((job) => job.attempts <= DELIVER_ALONE_AFTER)
  const alone = jobs.filter((job) => job.attempts > DELIVER_ALONE_AFTER)
  return [together, ...alone.map((job) => [job])].filter((group) => group.length > 0)
}

function isDeliveredAlone([job]: readonly ClaimedJob[]): boolean {
  return job !== undefined && job.attempts > DELIVER_ALONE_AFTER
}

function neverEnded({ attempts }: ClaimedJob): Delivery {
  const error = new Error(`Delivery was begun ${attempts - 1} times, and the last one did not end.`)
  return { type: 'failed', error, dead: true }
}

function checkOptions(options: RelayOptions): CheckedRelayOptions {
  checkKnownOptions(OWNER, options, OPTION_NAMES)
  const { sink, names, pollMs, batchSize, deliverTimeoutMs, maxAttempts, mixScopes = false } = options
  const concurrency = options.concurrency ?? DEFAULT_RELAY_CONCURRENCY
  const { concurrencyPerScope = DEFAULT_RELAY_CONCURRENCY_PER_SCOPE } = options
  checkFunction(OWNER, 'sink.deliver', (sink as Partial<Sink> | null | undefined)?.deliver)
  checkTimerMs(OWNER, 'pollMs', pollMs)
  checkWholeNumber(OWNER, 'batchSize', batchSize, 1, MAX_INT32)
  checkWholeNumber(OWNER, 'concurrency', concurrency, 1, MAX_INT32)
  checkWholeNumber(OWNER, 'concurrencyPerScope', concurrencyPerScope, 1, concurrency)
  if (typeof mixScopes !== 'boolean') throw invalidOption(OWNER, 'mixScopes', mixScopes, 'true or false')
  checkTimerMs(OWNER, 'deliverTimeoutMs', deliverTimeoutMs)
  checkWholeNumber(OWNER, 'maxAttempts', maxAttempts, 1, MAX_INT32)
  const isList = Array.isArray(names) && names.length > 0 && names.every((name) => typeof name === 'string')
  if (names !== undefined && !isList) throw invalidOption(OWNER, 'names', names, 'a list of names of jobs')
  return {
    sink,
    names: names ?? null,
    pollMs: pollMs ?? DEFAULT_RELAY_POLL_MS,
    batchSize: batchSize ?? DEFAULT_RELAY_BATCH_SIZE,
    concurrency,
    concurrencyPerScope,
    mixScopes,
    deliverTimeoutMs: deliverTimeoutMs ?? DEFAULT_DELIVER_TIMEOUT_MS,
    maxAttempts: maxAttempts ?? DEFAULT_JOB_MAX_ATTEMPTS,
  }
}
