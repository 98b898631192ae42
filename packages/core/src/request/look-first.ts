/** How many of the last requests count, roughly: enough to be a habit, few enough to be left soon. */
const REMEMBERED = 16

/**
 * Whether to look for a key before trying to insert it. Most requests are new, and are inserted at once; where most are
 * retries (a client that hammers, a queue that is played again), looking first answers them with one statement instead
 * of two. A wrong guess costs a statement and nothing else.
 */
export class LookFirst {
  /** The share of known keys among the last requests. */
  #known = 0

  get pays(): boolean {
    return this.#known > 0.5
  }

  learn(known: boolean): void {
    this.#known += (Number(known) - this.#known) / REMEMBERED
  }
}
