import { SCOPE_PAGES_PER_LOOK } from '../limits.js'
import type { DueKey, RunnableVersion } from '../storage/keys/due-keys.js'
import { findUnattendedByScope } from '../storage/keys/find-unattended-by-scope.js'
import type { Store } from '../storage/statement.js'
import { findDueKeys } from './find-due-keys.js'
import { ScopePass } from './scope-pass.js'

/** Who wants the keys. */
export interface Wanting {
  offer(keys: readonly DueKey[]): void
  /** Whether what was offered is of enough scopes. */
  isEnough(): boolean
  isFullFor(scope: string): boolean
}

/**
 * Finds due keys of all versions: the oldest, and where those are too many to be read at once, also those of one scope after the
 * other. So a scope with very many keys is not in the way of the others.
 */
export class Sweep {
  readonly #versions: readonly RunnableVersion[]
  readonly #pass = new ScopePass<DueKey>()

  constructor(versions: readonly RunnableVersion[]) {
    this.#versions = versions
  }

  /** Returns whether that was all, of every scope. If not, the next look goes on with further scopes. */
  async look(store: Store, wanting: Wanting): Promise<boolean> {
    const { keys, areAll } = await findDueKeys(store, this.#versions)
    wanting.offer(keys)
    if (areAll) return true
    const isFullFor = (scope: string): boolean => wanting.isFullFor(scope)
    for (let page = 0; page < SCOPE_PAGES_PER_LOOK; page++) {
      if (page > 0 && wanting.isEnough()) return false
      const { due, isOver } = await this.#pass.next(
        (after) => findUnattendedByScope(store, this.#versions, after),
        isFullFor,
      )
      wanting.offer(due)
      if (isOver) return true
    }
    return false
  }
}
