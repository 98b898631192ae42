import { MAX_LEFT_OFF_SCOPES } from '../limits.js'
import {
  afterScope,
  BEFORE_ALL_SCOPES,
  isAfterScope,
  isLater,
  type ScopePage,
  type ScopePlace,
} from '../storage/scope-place.js'

/**
 * Goes from scope to scope, a page at a time, and from the last one to the first again. A scope takes up no more than one page of
 * its own in each pass, however much it has; the next pass goes on there. So what others have is reached in a few pages.
 */
export class ScopePass<Row> {
  #after: ScopePlace = BEFORE_ALL_SCOPES
  /** Where the last pass stopped within a scope that has more. */
  readonly #leftOff = new Map<string, ScopePlace>()

  /** Whether the next page is that of the first scope. */
  get isAtFirst(): boolean {
    return this.#after === BEFORE_ALL_SCOPES
  }

  /** What is due in the next page. `isOver`: that was the last scope. */
  async next(
    read: (after: ScopePlace) => Promise<ScopePage<Row>>,
    isFullFor: (scope: string) => boolean,
  ): Promise<{ readonly due: readonly Row[]; readonly isOver: boolean }> {
    const from = this.#after
    const { due, last } = await read(from)
    const staysInScope = last !== null && last.scope === from.scope
    if (!staysInScope && !isAfterScope(from)) this.#leftOff.delete(from.scope)
    this.#after = this.#following(last, staysInScope, isFullFor)
    return { due, isOver: last === null }
  }

  #following(
    last: ScopePlace | null,
    staysInScope: boolean,
    isFullFor: (scope: string) => boolean,
  ): ScopePlace {
    if (last === null) return BEFORE_ALL_SCOPES
    if (staysInScope) {
      this.#leaveOff(last)
      return afterScope(last.scope)
    }
    if (isFullFor(last.scope)) return afterScope(last.scope)
    const leftOff = this.#leftOff.get(last.scope)
    return leftOff !== undefined && isLater(leftOff, last) ? leftOff : last
  }

  #leaveOff(place: ScopePlace): void {
    this.#leftOff.delete(place.scope)
    this.#leftOff.set(place.scope, place)
    const [oldest] = this.#leftOff.keys()
    if (this.#leftOff.size > MAX_LEFT_OFF_SCOPES && oldest !== undefined) this.#leftOff.delete(oldest)
  }
}
