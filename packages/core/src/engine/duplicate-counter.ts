import { announce } from '../announce/announce.js'
import { isConnectionLost } from '../errors.js'
import { ASIDE_LOCK_TIMEOUT_MS, MAX_DUPLICATE_COUNTS } from '../limits.js'
import { countDuplicates, type DuplicateCount } from '../storage/duplicates/count-duplicates.js'
import { describeThrown } from '../read-error.js'
import { explained } from '../storage/schema/explaining.js'
import type { Place } from '../storage/schema/missing-right.js'

/** What a request was that is a duplicate. */
type DuplicateKind = 'replayed' | 'inFlight' | 'mismatched'

type Counting = { -readonly [Name in keyof DuplicateCount]: DuplicateCount[Name] }

/** The scope that all others are counted under once there are too many. No request has it. */
const THE_REST = ''

/** Which outcomes of a request say that it is a duplicate. */
const KINDS: Readonly<Record<string, DuplicateKind>> = {
  replayed: 'replayed',
  in_flight: 'inFlight',
  mismatch: 'mismatched',
}

/**
 * Counts duplicates in memory, by scope and pipeline, and adds them to the table now and then: a request never waits for that. What
 * it counts in, it counts in exactly; a process that is killed takes what it has not written yet with it.
 */
export class DuplicateCounter {
  readonly #place: Place
  readonly #everyMs: number
  #counts = new Map<string, Counting>()
  #timer: NodeJS.Timeout | null = null
  #flushing: Promise<void> = Promise.resolve()
  #reported: string | null = null
  #isClosed = false

  constructor(place: Place, everyMs: number) {
    this.#place = place
    this.#everyMs = everyMs
  }

  /** How many counts it has in memory. */
  get size(): number {
    return this.#counts.size
  }

  /** Counts a request that ended like this, if it is a duplicate. */
  count(scope: string, pipeline: string, outcome: string): void {
    const kind = Object.hasOwn(KINDS, outcome) ? KINDS[outcome] : undefined
    if (kind === undefined) return
    this.#countOf(scope, pipeline)[kind]++
    this.#flushLater()
  }

  /** Forgets what it has counted of a scope. */
  forget(scope: string): void {
    for (const [name, count] of this.#counts) if (count.scope === scope) this.#counts.delete(name)
  }

  /** Adds what was counted to the table. What fails is reported. */
  flush(): Promise<void> {
    this.#flushing = this.#flushing.then(() => this.#flush())
    return this.#flushing
  }

  /** Does nothing by itself from now on. */
  halt(): void {
    this.#isClosed = true
    this.#stopWaiting()
  }

  #stopWaiting(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  async #flush(): Promise<void> {
    this.#stopWaiting()
    if (this.#counts.size === 0) return
    const counts = [...this.#counts.values()]
    this.#counts = new Map()
    const { sessions, tables } = this.#place
    try {
      await sessions.with('duplicates', (session) => {
        session.shortenLockTimeout(ASIDE_LOCK_TIMEOUT_MS)
        return countDuplicates({ session, tables }, counts)
      })
      this.#reported = null
    } catch (error) {
      // Where nobody knows whether they were added, adding them again could say twice as much as there was.
      if (!isConnectionLost(error)) this.#takeBack(counts)
      await this.#report(error)
    }
  }

  /** For the next time. */
  #takeBack(counts: readonly DuplicateCount[]): void {
    for (const { scope, pipeline, replayed, inFlight, mismatched } of counts) {
      const count = this.#countOf(scope, pipeline)
      count.replayed += replayed
      count.inFlight += inFlight
      count.mismatched += mismatched
    }
    this.#flushLater()
  }

  /** Only while there is something: an engine that nobody sends duplicates to has no timer. */
  #flushLater(): void {
    if (!this.#isClosed) this.#timer ??= setTimeout(() => void this.flush(), this.#everyMs).unref()
  }

  /** Engines have few pipelines, but anybody may have many scopes. */
  #countOf(scope: string, pipeline: string): Counting {
    const name = `${pipeline}\0${scope}`
    const known = this.#counts.get(name)
    if (known !== undefined) return known
    if (scope !== THE_REST && this.#counts.size >= MAX_DUPLICATE_COUNTS)
      return this.#countOf(THE_REST, pipeline)
    const count = { scope, pipeline, replayed: 0, inFlight: 0, mismatched: 0 }
    this.#counts.set(name, count)
    return count
  }

  async #report(thrown: unknown): Promise<void> {
    const error = await explained(this.#place, thrown, 'counter')
    // A pool may throw anything, and nobody waits for this.
    const message = describeThrown(error)
    if (message === this.#reported) return
    this.#reported = message
    announce('pawl:warning', () => ({ message: `duplicates could not be counted: ${message}`, error }))
  }
}
