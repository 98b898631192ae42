import { CLAIMED_AHEAD_MS, DELIVER_ALONE_AFTER } from '../limits.js'
import type { ClaimedJob } from '../storage/jobs/claiming.js'
import {
  type CountingJobs,
  type JobEnd,
  type JobResults,
  NOT_BEGUN,
  type RelayCounts,
} from './job-results.js'
import type { Places } from './places.js'
import type { CheckedRelayOptions } from './relay-options.js'
import { type Delivery, deliverTo } from './sink.js'
import { groupByScope } from './turn-queue.js'

/** What a round needs of its relay. */
interface OfRelay {
  readonly options: CheckedRelayOptions
  readonly places: Places
  readonly results: JobResults
  readonly counts: CountingJobs
  /** Aborted when a stop has waited long enough. */
  readonly hurry: AbortSignal
  /** Called when a delivery has ended, and before that is recorded. */
  readonly placeIsFree: () => void
  /** Called when what became of a delivery is recorded, or could not be. */
  readonly isRecorded: () => void
}

/** Jobs of one scope, waiting for a place. */
interface Lot {
  readonly scope: string
  /** Called with how many places it has got; with none, it is given back. */
  readonly go: (places: number) => void
}

/**
 * The jobs of one claim, delivered scope by scope as places become free. Those whose turn has not come soon are given back: all
 * places may be taken by deliveries that hang, and others may have free ones.
 */
export class RelayRound {
  readonly counts: RelayCounts
  /** Resolves when what became of all jobs is recorded, and fails if some of that could not be. */
  readonly ended: Promise<void>
  readonly #relay: OfRelay
  readonly #claimedAt: number
  readonly #isAlone: boolean
  readonly #timer: NodeJS.Timeout | undefined
  #waiting: Lot[] = []

  /** `claimedAt`: the claim begins no earlier than this. `isAlone`: the one job is to be delivered while nothing else is. */
  constructor(relay: OfRelay, jobs: readonly ClaimedJob[], claimedAt: number, isAlone: boolean) {
    this.#relay = relay
    this.#claimedAt = claimedAt
    this.#isAlone = isAlone
    const { counts, results, options } = relay
    this.counts = counts
    counts.claimed = jobs.length
    const closed = jobs.filter((job) => job.sealed !== null)
    const open = jobs.filter((job) => job.sealed === null)
    const worn = open.filter((job) => job.attempts > options.maxAttempts)
    const able = open.filter((job) => job.attempts <= options.maxAttempts)
    const failures = [
      ...worn.map(neverEnded),
      ...closed.map(({ sealed }): Delivery => ({ type: 'failed', error: sealed })),
    ]
    const failed = failures.length === 0 ? [] : [results.alone([...worn, ...closed], failures)]
    const ofScopes = options.mixScopes ? new Map([[MIXED, able]]) : groupByScope(able)
    const ends = [...ofScopes].map(([scope, lot]) => this.#endOf(scope, lot))
    this.ended = allOf([...failed, ...ends])
    this.fill()
    // What begins after the time for a delivery is lost, with its attempt.
    const aheadMs = Math.min(CLAIMED_AHEAD_MS, options.deliverTimeoutMs / 2)
    if (this.isWaiting) this.#timer = setTimeout(() => this.giveBack(), aheadMs)
  }

  /** Whether some of its jobs wait for a place. */
  get isWaiting(): boolean {
    return this.#waiting.length > 0
  }

  /** Begins as many deliveries as there are places for. */
  fill(): void {
    for (const lot of this.#waiting)
      if (this.#relay.places.isFreeFor(lot.scope)) this.#leave(lot, this.#take(lot.scope))
  }

  /** Gives back what has not begun yet. */
  giveBack(): void {
    for (const lot of this.#waiting) this.#leave(lot, 0)
  }

  #leave(lot: Lot, places: number): void {
    this.#waiting = this.#waiting.filter((other) => other !== lot)
    if (!this.isWaiting) clearTimeout(this.#timer)
    lot.go(places)
  }

  /** A job that is delivered alone holds all places, so that it uses up no other job's attempts if it kills the process. */
  #take(scope: string): number {
    const { places } = this.#relay
    const count = this.#isAlone ? places.free : 1
    for (let nth = 0; nth < count; nth++) places.take(scope)
    return count
  }

  async #endOf(scope: string, jobs: readonly ClaimedJob[]): Promise<void> {
    const { results, isRecorded } = this.#relay
    const places = await new Promise<number>((go) => this.#waiting.push({ scope, go }))
    const notBegun = (): JobEnd[] => jobs.map(() => NOT_BEGUN)
    if (places === 0) return results.together(jobs, notBegun())
    try {
      await this.#deliver(jobs, () => this.#giveBackPlaces(scope, places))
    } finally {
      isRecorded()
    }
  }

  /** `ended`: called when the deliveries have ended, so that the next ones do not wait for that to be recorded. */
  async #deliver(jobs: readonly ClaimedJob[], ended: () => void): Promise<void> {
    const { options, counts, results, hurry } = this.#relay
    const { sink, deliverTimeoutMs } = options
    // After a process was paused, others may be delivering its jobs: the claim has to outlast the delivery.
    if (performance.now() - this.#claimedAt >= deliverTimeoutMs) {
      counts.lost += jobs.length
      ended()
      return
    }
    // None of them fails: whatever the sink does, there is a result.
    const deliveries = groups(jobs).map(async (group) => ({
      group,
      ends: await deliverTo(sink, group, deliverTimeoutMs, hurry),
    }))
    void Promise.all(deliveries).then(ended)
    await allOf(
      deliveries.map(async (delivery) => {
        const { group, ends } = await delivery
        await (isDeliveredAlone(group) ? results.alone(group, ends) : results.together(group, ends))
      }),
    )
  }

  #giveBackPlaces(scope: string, count: number): void {
    const { places, placeIsFree } = this.#relay
    for (let nth = 0; nth < count; nth++) places.giveBack(scope)
    placeIsFree()
  }
}

/** Stands for all scopes where a delivery may have jobs of several. */
const MIXED = ''

/** Waits for all of them, also when one has failed. */
async function allOf(ends: readonly Promise<unknown>[]): Promise<void> {
  const failure = (await Promise.allSettled(ends)).find((end) => end.status === 'rejected')
  if (failure !== undefined) throw failure.reason
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
