import { ERASE_LOCK_WAITS, MAX_KEPT_NAMED } from '../limits.js'
import type { Kept } from './erasure.js'

/** What an erasure has to keep, named up to a bound, and how often it has waited for a lock in vain. */
export class KeptList {
  readonly named: Kept[] = []
  /** The ids of the keys among them, for a dry run: there, those that would be gone by now are still there. */
  readonly keyIds = new Set<string>()
  #count = 0
  #lockWaits = 0

  get count(): number {
    return this.#count
  }

  add(kept: Kept): void {
    this.#count++
    if (kept.what === 'key') this.keyIds.add(kept.id)
    if (this.named.length < MAX_KEPT_NAMED) this.named.push(kept)
  }

  waitedForLock(): void {
    this.#lockWaits++
  }

  get isOutOfPatience(): boolean {
    return this.#lockWaits >= ERASE_LOCK_WAITS
  }
}
