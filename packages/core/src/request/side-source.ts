import { announce } from '../announce/announce.js'
import { SOURCE_MISSES, SOURCE_RESTS, SOURCE_WARNING_MS } from '../limits.js'

/** What came of a look at a source beside the primary. `unfit`: it cannot answer, and why, in words for a person. */
export type Look<T> =
  | { readonly type: 'told'; readonly told: T }
  | { readonly type: 'unfit'; readonly why: string; readonly error: unknown }

export interface SideSourceOptions {
  /** How long a request waits for it. */
  readonly timeoutMs: number
  /** How long it is left alone at the most. */
  readonly restMs: number
  /** Said where it did not answer in time, and where it failed. */
  readonly tooLate: string
  readonly failed: string
}

/**
 * A source of finished keys beside the primary, such as a replica or a cache. It has a bounded time to answer, and is left alone for a
 * while when it was of no use to several requests in a row, so that its silence does not delay every request. Then one request tries
 * it again. The first rest is short, because many requests at once may meet a pause of milliseconds; each further one is twice as long.
 */
export class SideSource {
  readonly #options: SideSourceOptions
  #misses = 0
  #rests = 0
  #restsUntil = 0
  #isTried = false
  #announced: { readonly why: string; readonly at: number } | null = null

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
    const isTrial = this.isResting
    const { timeoutMs, tooLate, failed } = this.#options
    const looked = look().catch((error: unknown): Look<T> => ({ type: 'unfit', why: failed, error }))
    const end = await inTime(looked, timeoutMs, tooLate)
    if (isTrial) this.#isTried = false
    if (end.type === 'unfit') {
      this.#missed(end, isTrial)
      return null
    }
    const isBack = this.isResting
    this.#misses = 0
    this.#rests = 0
    return { told: end.told, isBack }
  }

  #mayAsk(): boolean {
    if (!this.isResting) return true
    if (this.#isTried || performance.now() < this.#restsUntil) return false
    this.#isTried = true
    return true
  }

  /** Those that were under way when it was left alone say nothing new. */
  #missed({ why, error }: Extract<Look<unknown>, { type: 'unfit' }>, isTrial: boolean): void {
    this.#misses++
    if (this.#misses !== SOURCE_MISSES && !isTrial) return
    const { timeoutMs, restMs } = this.#options
    const now = performance.now()
    this.#restsUntil = now + Math.min(restMs, timeoutMs * SOURCE_RESTS * 2 ** this.#rests++)
    this.#announce(why, error, now)
  }

  /** Once in a while for the same reason: a source may be of use now and then. */
  #announce(why: string, error: unknown, now: number): void {
    const announced = this.#announced
    if (announced?.why === why && now - announced.at < SOURCE_WARNING_MS) return
    this.#announced = { why, at: now }
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
