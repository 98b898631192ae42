import { announce } from '../announce/announce.js'
import { SOURCE_MISSES } from '../limits.js'

/**
 * Leaves a source of finished keys beside the primary, a replica or a cache, alone for a while when it was of no use to several
 * requests in a row, so that its silence does not delay every request. Then one request tries it again.
 */
export class SourceRest {
  readonly #restMs: number
  #misses = 0
  #restsUntil = 0
  #isTried = false
  #announced: string | null = null

  constructor(restMs: number) {
    this.#restMs = restMs
  }

  /** Whether it is left alone at the moment, but for the request that tries it again. */
  get isResting(): boolean {
    return this.#misses >= SOURCE_MISSES
  }

  /** Whether a request may ask the source. If it does, it says by `found` or `missed` how that went. */
  mayAsk(): boolean {
    if (this.#misses < SOURCE_MISSES) return true
    if (this.#isTried || performance.now() < this.#restsUntil) return false
    this.#isTried = true
    return true
  }

  found(): void {
    this.#misses = 0
    this.#isTried = false
    this.#announced = null
  }

  /** Announces why, once, until the source is of use again or something else is wrong with it. */
  missed(why: string, error: unknown): void {
    this.#misses++
    this.#isTried = false
    if (this.#misses < SOURCE_MISSES) return
    this.#restsUntil = performance.now() + this.#restMs
    if (this.#announced === why) return
    this.#announced = why
    announce('pawl:warning', () => ({ message: why, error }))
  }
}
