/**
 * The database's clock, as far as this page knows it: ages and leases are right however wrong the clock of the browser is. Between
 * two observations it runs with the monotonic clock.
 */
class Clock {
  /** What to add to the monotonic clock, by the database's moments; null before the first. */
  #fromDatabase: number | null = null
  #fromConsole: number | null = null

  /** A moment that the database said when it answered. */
  observe(moment: string): void {
    const offset = Date.parse(moment) - performance.now()
    if (Number.isNaN(offset)) return
    // An answer was on its way for a while, so the one that says the latest is nearest to the truth, unless the clock has been set back.
    const isEarlier = this.#fromDatabase !== null && offset < this.#fromDatabase
    if (isEarlier && this.#fromDatabase !== null && this.#fromDatabase - offset < MAX_DELAY_MS) return
    this.#fromDatabase = offset
  }

  /** A moment of the console's clock, which is taken while the database has said none. */
  observeConsole(moment: string): void {
    const offset = Date.parse(moment) - performance.now()
    if (!Number.isNaN(offset)) this.#fromConsole = offset
  }

  /** In milliseconds since 1970. */
  now(): number {
    const offset = this.#fromDatabase ?? this.#fromConsole
    return offset === null ? Date.now() : performance.now() + offset
  }
}

/** An answer takes no longer than this; a moment that is further back says that the clock was set. */
const MAX_DELAY_MS = 60_000

export const clock = new Clock()
