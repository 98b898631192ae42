import { POSITIONS_PER_LAG } from '../limits.js'
import { type Moment, msSince } from '../moment.js'
import type { WrittenPosition } from '../storage/keys/read-written-position.js'

/** A position of the primary, and when it was asked for. */
export class KnownPosition {
  readonly written: WrittenPosition
  readonly #asked: Moment

  constructor(written: WrittenPosition, asked: Moment) {
    this.written = written
    this.#asked = asked
  }

  /** How long ago it was asked for, at the least. */
  get ageMs(): number {
    return msSince(this.#asked)
  }

  /** The primary's clock by now, at the most. */
  get primaryNowMs(): number {
    // Its clock was rounded down.
    return this.written.nowMs + 1 + this.ageMs
  }
}

/**
 * What this process knows of how far the primary has come. A replica that has reached a position knows of everything that
 * was committed before the position was asked for.
 */
export class PrimaryPositions {
  readonly #ask: () => Promise<KnownPosition>
  readonly #maxAgeMs: number
  /** The oldest first. */
  #known: readonly KnownPosition[] = []
  #asking: Promise<void> | null = null

  constructor(ask: () => Promise<KnownPosition>, maxAgeMs: number) {
    this.#ask = ask
    this.#maxAgeMs = maxAgeMs
  }

  /**
   * Returns the oldest position that is not too old: the one that a replica is most likely to have reached. Waits for the
   * primary only if there is none. Otherwise, a newer one is asked for in good time, and nobody waits for it.
   */
  async oldestAllowed(): Promise<KnownPosition> {
    const known = this.#oldest()
    const newest = this.#known.at(-1)
    if (known !== undefined && newest !== undefined) {
      // If it fails, what is known gets too old, and then somebody waits and is told.
      if (newest.ageMs >= this.#maxAgeMs / POSITIONS_PER_LAG) this.#askOnce().catch(() => {})
      return known
    }
    await this.#askOnce()
    const asked = this.#oldest()
    if (asked === undefined) throw new Error('The primary took too long to say how far it has come.')
    return asked
  }

  #oldest(): KnownPosition | undefined {
    this.#known = this.#known.filter(({ ageMs }) => ageMs <= this.#maxAgeMs)
    return this.#known[0]
  }

  #askOnce(): Promise<void> {
    this.#asking ??= this.#ask()
      .then((position) => {
        // After a failover, what the old primary said does not bind replicas of the new one.
        this.#known = [
          ...this.#known.filter((earlier) => isBefore(earlier.written, position.written)),
          position,
        ]
      })
      .finally(() => {
        this.#asking = null
      })
    return this.#asking
  }
}

/** Whether one log can have had both positions, in this order. */
function isBefore(earlier: WrittenPosition, later: WrittenPosition): boolean {
  return (
    earlier.database === later.database &&
    earlier.timeline === later.timeline &&
    earlier.position <= later.position
  )
}
