import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { announce } from '../announce/announce.js'
import { traceRound } from '../announce/tracing.js'
import { PawlError } from '../errors.js'
import { ABORT_GRACE_MS, DELIVER_ALONE_AFTER, JOBS_READ_PER_LOOK } from '../limits.js'
import type { Engine } from '../engine/engine.js'
import { contextOf, type EngineContext } from '../engine/engine-context.js'
import { type Claim, type Claimed, scopesOf } from '../storage/jobs/claim-jobs.js'
import type { DueJob } from '../storage/jobs/find-due-jobs.js'
import { askStore } from './ask-store.js'
import { claimDueJobs } from './claim-due-jobs.js'
import { JobResults, type RelayCounts } from './job-results.js'
import { Places } from './places.js'
import { type CheckedRelayOptions, checkRelayOptions, type RelayOptions } from './relay-options.js'
import { RelayRound } from './relay-round.js'
import { ScopePass } from './scope-pass.js'
import { checkStopOptions, Poller, type Service, type StopOptions } from './service.js'

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
  /** The last round that was begun. Only in that one, jobs may wait for a place: nothing more is claimed meanwhile. */
  #latest: RelayRound | null = null
  #hurry = newHurry()
  /** When nothing was under way for the last time. */
  #idleAt = performance.now()
  /** The scope of the last job that was claimed alone: the others have their turn before its next one. */
  #lastAlone: string | null = null
  /** Scopes that had a turn while others had none, in that order. They let the others go first. */
  #hadTurn: readonly string[] = []
  #silence: (() => void) | null = null

  constructor(engine: Engine<never>, options: RelayOptions) {
    this.#context = contextOf(engine, 'createBackground')
    this.#options = checkRelayOptions(options)
    this.#places = this.#newPlaces()
    this.#poller = new Poller({
      service: 'relay',
      tracing: this.#context.tracing,
      pollMs: this.#options.pollMs,
      underWay: this.#underWay,
      round: async (stopping) => {
        const places = this.#places
        // When one is free again, the next round begins at once.
        if (stopping.aborted || places.free === 0) return { counts: null, more: false }
        const { round, mayBeMore } = await this.#begin(places)
        // It is not idle while something is under way, and reports that when it ends.
        if (round.counts.claimed === 0)
          return { counts: this.#underWay.size === 0 ? round.counts : null, more: false }
        const reported = this.#follow(round)
        if (stopping.aborted) round.giveBack()
        // A stop that came meanwhile waits for the rounds.
        if (stopping.aborted) await reported
        return { counts: null, more: mayBeMore && places.free > 0 }
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
    this.#latest?.giveBack()
    await this.#poller.stop(options)
    hurry.abort(new PawlError('PAWL_CLOSING', 'The relay was stopped.'))
  }

  /** It waits for its deliveries, and has places of its own. */
  async runOnce(): Promise<RelayCounts> {
    return traceRound(this.#context.tracing, 'relay', async () => {
      const { round } = await this.#begin(this.#newPlaces())
      await round.ended
      return round.counts
    })
  }

  /** Reports a round once its deliveries have ended. Rounds go on meanwhile, so that one that hangs holds up no other scope. */
  #follow({ counts, ended }: RelayRound): Promise<void> {
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
  async #begin(places: Places): Promise<{ readonly round: RelayRound; readonly mayBeMore: boolean }> {
    const hurry = this.#hurry.signal
    const claimId = randomUUID()
    const { jobs, isAlone, mayBeMore, claimedAt } = await this.#claim(claimId, places)
    const counts = { ...NOTHING }
    const results = new JobResults(this.#context, claimId, counts, this.#options.maxAttempts)
    const placeIsFree = (): void => {
      if (places.isEmpty) this.#idleAt = performance.now()
      const waiting = places === this.#places ? this.#latest : round
      waiting?.fill()
    }
    // Not for rounds that began before a stop: those after it have places of their own.
    const isRecorded = (): void => {
      if (places === this.#places) this.#poller.wake()
    }
    const relay = { options: this.#options, places, results, counts, hurry, placeIsFree, isRecorded }
    const round = new RelayRound(relay, jobs, claimedAt, isAlone)
    if (places === this.#places) this.#latest = round
    return { round, mayBeMore: mayBeMore && !round.isWaiting }
  }

  #newPlaces(): Places {
    const { concurrency, concurrencyPerScope, mixScopes } = this.#options
    return new Places(concurrency, mixScopes ? concurrency : concurrencyPerScope)
  }

  /** `claimedAt`: the claim begins no earlier than this. Waiting for a connection does not count. */
  async #claim(id: string, places: Places): Promise<Got> {
    const { batchSize: limit, names, deliverTimeoutMs, mixScopes } = this.#options
    const claimMs = deliverTimeoutMs * CLAIM_PER_DELIVERY
    const now = performance.now()
    if (places.isEmpty) this.#idleAt = now
    const claim: Claim = {
      id,
      forMs: claimMs + ABORT_GRACE_MS,
      names,
      limit,
      aloneAfter: DELIVER_ALONE_AFTER,
      // Where there is always something under way, it does not wait forever.
      mayBeAlone: places.isEmpty || now - this.#idleAt > claimMs,
      without: mixScopes ? [] : places.fullScopes,
      places: mixScopes ? limit : places.free,
      scopes: mixScopes ? limit : places.free * this.#scopesPerPlace,
      last: this.#lastAlone,
    }
    const hadTurn = this.#hadTurn
    this.#hadTurn = []
    return askStore(this.#context, async (store) => {
      const claimedAt = performance.now()
      const claimed = await claimDueJobs(
        store,
        { ...claim, without: [...claim.without, ...hadTurn] },
        this.#pass,
      )
      const isOnlyTheirs = hadTurn.length > 0 && claimed.jobs.length === 0
      const got = isOnlyTheirs ? await claimDueJobs(store, claim, this.#pass) : claimed
      const { jobs, isAlone, areLeftOut } = got
      this.#lastAlone = isAlone ? (jobs[0]?.scope ?? null) : null
      // Until all of them had one.
      const before = isOnlyTheirs ? [] : hadTurn
      // No more than a look reads: beyond that, the first may go again.
      if (areLeftOut) this.#hadTurn = [...before, ...scopesOf(jobs)].slice(-JOBS_READ_PER_LOOK)
      return { jobs, isAlone, mayBeMore: !got.isRestUnderWay || hadTurn.length > 0, claimedAt }
    })
  }

  /**
   * Of how many scopes jobs are claimed for each free place. With one, where each of very many scopes has a job or two, a claim would
   * get a tenth of its batch. Where one scope may take all places, nobody else's jobs are to wait here for them.
   */
  get #scopesPerPlace(): number {
    const { batchSize, concurrency, concurrencyPerScope } = this.#options
    return concurrencyPerScope < concurrency ? Math.ceil(batchSize / concurrency) : 1
  }
}

/** What a claim got. `mayBeMore`: another one may get more before a delivery has ended. */
type Got = Pick<Claimed, 'jobs' | 'isAlone'> & { readonly mayBeMore: boolean; readonly claimedAt: number }

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
