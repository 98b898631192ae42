import { DUE_KEYS_PER_LOOK } from '../limits.js'
import { AT_START, type DueKey, type Place, type RunnableVersion } from '../storage/keys/due-keys.js'
import type { Store } from '../storage/statement.js'
import { findDueKeys } from './find-due-keys.js'

/**
 * Goes through the due keys of all versions, a page at a time: each version from where the last page stopped to its end,
 * and then from its start again. Keys that stay due, however many there are, are passed once in each sweep, so the others
 * get their turn.
 */
export class Sweep {
  readonly #versions: readonly RunnableVersion[]
  #after: Place[] = []

  constructor(versions: readonly RunnableVersion[]) {
    this.#versions = versions
    this.#restart()
  }

  /** The next keys that are wanted, at most `limit` of them. `isOver`: all that are due have been passed. */
  async next(
    store: Store,
    limit: number,
    isWanted: (keyId: string) => boolean,
  ): Promise<{ readonly keys: readonly DueKey[]; readonly isOver: boolean }> {
    const keys = new Map<string, DueKey>()
    const isFromStart = this.#after.every((place) => place === AT_START)
    let isOver = await this.#take(store, limit, keys, isWanted)
    // There is room left for those that have become due behind the current place.
    if (isOver && !isFromStart) isOver = await this.#take(store, limit, keys, isWanted)
    return { keys: [...keys.values()], isOver }
  }

  /** Takes the keys of one page. Returns true when it was the last page, so that the next one is the first. */
  async #take(
    store: Store,
    limit: number,
    keys: Map<string, DueKey>,
    isWanted: (keyId: string) => boolean,
  ): Promise<boolean> {
    const due = await findDueKeys(store, this.#versions, this.#after)
    this.#restartWhereNothingCame(due)
    for (const key of due) {
      this.#after[key.version] = key
      if (isWanted(key.id)) keys.set(key.id, key)
      if (keys.size === limit) return false
    }
    if (due.length === DUE_KEYS_PER_LOOK) return false
    this.#restart()
    return true
  }

  #restart(): void {
    this.#after = this.#versions.map(() => AT_START)
  }

  /** A version with few due keys does not wait for the end of one with many. */
  #restartWhereNothingCame(due: readonly DueKey[]): void {
    const seen = new Set(due.map(({ version }) => version))
    this.#after = this.#after.map((place, version) => (seen.has(version) ? place : AT_START))
  }
}
