import { announce } from '../announce/announce.js'
import { SOURCE_MISSES } from '../limits.js'

/** What came of a look at a source beside the primary. `unfit`: it cannot answer, and why, in words for a person. */
export type Look<T> =
  | { readonly type: 'told'; readonly told: T }
  | { readonly type: 'unfit'; readonly why: string; readonly error: unknown }

export interface SideSourceOptions {
  /** How long a request waits for it. */
  readonly timeoutMs: number
  /** How long it is left alone. */
  readonly restMs: number
  /** Said where it did not answer in time, and where it failed. */
  readonly tooLate: string
  readonly failed: string
}

/**
 * A source of finished keys beside the primary, such as a replica or a cache. It has a bounded time to answer, and is left alone for a
 * while when it was of no use to several requests in a row, so that its silence does not delay every request. Then one request tries
 * it again.
 */
export class SideSource {
  readonly #options: SideSourceOptions
  #misses = 0
  #restsUntil = 0
  #isTried = false
  #announced: string | null = null

  constructor(options: SideSourceOptions) {
    this.#options = options
  }

  /** Whether it is left alone at the moment, but for the request that tries it again. */
  get isResting(): boolean {
    return this.#misses >= SOURCE_MISSES
  }

  /** Looks there, if it is not left alone. Returns null where it could not tell. Never throws. `isBack`: it was left alone until now. */
  async ask<T>(look: () => Promise<Look<T>>): Promise<{ readonly told: T; readonly isBack: boolean } | null> {
    if (!this.#mayAsk()) return null
    const { timeoutMs, tooLate, failed } = this.#options
    const looked = look().catch((error: unknown): Look<T> => ({ type: 'unfit', why: failed, error }))
    const end = await inTime(looked, timeoutMs, tooLate)
    if (end.type === 'unfit') {
      this.#missed(end.why, end.error)
      return null
    }
    const isBack = this.isResting
    this.#misses = 0
    this.#isTried = false
    this.#announced = null
    return { told: end.told, isBack }
  }

  #mayAsk(): boolean {
    if (!this.isResting) return true
    if (this.#isTried || performance.now() < this.#restsUntil) return false
    this.#isTried = true
    return true
  }

  /** Announces why, once, until the source is of use again or something else is wrong with it. */
  #missed(why: string, error: unknown): void {
    this.#misses++
    this.#isTried = false
    if (!this.isResting) return
    this.#restsUntil = performance.now() + this.#options.restMs
    if (this.#announced === why) return
    this.#announced = why
    announce('pawl:warning', () => ({ message: why, error }))
  }
}

/**
 * Gives up after a while. When this process itself was busy for longer, an answer that has arrived meanwhile still counts: it is
 * read in the turn of the event loop after the timer's. What fails by then has failed because it took too long.
 */
function inTime<T>(looked: Promise<Look<T>>, timeoutMs: number, tooLate: string): Promise<Look<T>> {
  const late: Look<T> = { type: 'unfit', why: tooLate, error: null }
  return new Promise((resolve) => {
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      setImmediate(resolve, late)
    }, timeoutMs)
    void looked.then((look) => {
      clearTimeout(timer)
      resolve(isLate && look.type === 'unfit' ? late : look)
    })
  })
}
