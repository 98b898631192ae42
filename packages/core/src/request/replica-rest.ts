import { announce } from '../announce/announce.js'
import { REPLICA_MISSES, REPLICA_REST_MS } from '../limits.js'
import type { Unfit } from './judge-replica.js'

/**
 * Leaves a replica alone for a while when it was of no use to several requests in a row, so that its silence does not delay
 * every request. Then one request tries it again.
 */
export class ReplicaRest {
  #misses = 0
  #restsUntil = 0
  #isTried = false
  #announced: Unfit | null = null

  /** Whether a request may ask the replica. If it does, it says by `found` or `missed` how that went. */
  mayAsk(): boolean {
    if (this.#misses < REPLICA_MISSES) return true
    if (this.#isTried || performance.now() < this.#restsUntil) return false
    this.#isTried = true
    return true
  }

  found(): void {
    this.#misses = 0
    this.#isTried = false
    this.#announced = null
  }

  /** Announces why, once, until the replica is of use again or something else is wrong with it. */
  missed(why: Unfit, error: unknown): void {
    this.#misses++
    this.#isTried = false
    if (this.#misses < REPLICA_MISSES) return
    this.#restsUntil = performance.now() + REPLICA_REST_MS
    if (this.#announced === why) return
    this.#announced = why
    announce('pawl:warning', () => ({ message: why, error }))
  }
}
