/** Roughly how many of the latest requests count: enough to show a habit, few enough to unlearn it soon. */
const REMEMBERED = 16

/**
 * Tells whether to look for a key before trying to insert it. Most requests are new, and are inserted at once. Where most
 * are retries (a client that hammers, a queue that is replayed), looking first answers them with one statement instead of
 * two. A wrong guess costs a statement and nothing else.
 */
export class ReplayLikelihood {
  /** The share of known keys among the last requests. */
  #known = 0

  get isHigh(): boolean {
    return this.#known > 0.5
  }

  learn(known: boolean): void {
    this.#known += (Number(known) - this.#known) / REMEMBERED
  }
}
