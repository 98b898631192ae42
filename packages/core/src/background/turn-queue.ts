/** What was found and has not begun yet. */
interface Queued {
  readonly id: string
  readonly scope: string
}

/**
 * Found work, by scope: the scopes take turns. It holds no more than `limit`. When it is full, the scope that has most in it gives
 * way to those that have less, because what is dropped is found again.
 */
export class TurnQueue<Item extends Queued> {
  readonly #limit: number
  /** The scope whose turn it is comes first. */
  readonly #ofScope = new Map<string, Item[]>()
  readonly #ids = new Set<string>()
  readonly #cut = new Set<string>()

  constructor(limit: number) {
    this.#limit = limit
  }

  get size(): number {
    return this.#ids.size
  }

  has(id: string): boolean {
    return this.#ids.has(id)
  }

  /** Whether nothing is left of a scope that there was more of than there was room for. */
  get isUsedUp(): boolean {
    for (const scope of this.#cut) if (!this.#ofScope.has(scope)) return true
    return false
  }

  /** Before everything is offered anew: what was dropped is found again, or somebody else has it. */
  forgetDropped(): void {
    this.#cut.clear()
  }

  /** Whether more of the scope would be dropped. */
  isFullFor(scope: string): boolean {
    return this.size >= this.#limit && this.#longest().items.length <= this.#count(scope) + 1
  }

  /** Adds what there is room for. Of each scope, what comes first is kept. */
  offer(items: Iterable<Item>): void {
    const ofScope = groupByScope(items)
    for (const scope of ofScope.keys()) this.#cut.delete(scope)
    const longest = Math.max(0, ...[...ofScope.values()].map(({ length }) => length))
    for (let turn = 0; turn < longest; turn++) {
      for (const [scope, offered] of ofScope) {
        const item = offered[turn]
        if (item === undefined || this.#cut.has(scope)) continue
        if (this.isFullFor(scope)) this.#cut.add(scope)
        else this.#add(item)
      }
    }
  }

  /** The next whose scope may begin something; null if there is none. */
  take(isFree: (scope: string) => boolean): Item | null {
    for (const [scope, items] of this.#ofScope) {
      if (!isFree(scope)) continue
      // In a different order from other processes, which found the same.
      const [item] = items.splice(Math.floor(Math.random() * items.length), 1)
      this.#ofScope.delete(scope)
      if (items.length > 0) this.#ofScope.set(scope, items)
      if (item === undefined) continue
      this.#ids.delete(item.id)
      return item
    }
    return null
  }

  /** How many scopes could begin something now. */
  countFree(isFree: (scope: string) => boolean): number {
    let count = 0
    for (const scope of this.#ofScope.keys()) if (isFree(scope)) count++
    return count
  }

  clear(): void {
    this.#ofScope.clear()
    this.#ids.clear()
    this.#cut.clear()
  }

  #add(item: Item): void {
    if (this.size >= this.#limit) {
      const { scope, items } = this.#longest()
      const dropped = items.pop()
      if (dropped !== undefined) this.#ids.delete(dropped.id)
      this.#cut.add(scope)
    }
    const items = this.#ofScope.get(item.scope)
    if (items === undefined) this.#ofScope.set(item.scope, [item])
    else items.push(item)
    this.#ids.add(item.id)
  }

  #count(scope: string): number {
    return this.#ofScope.get(scope)?.length ?? 0
  }

  #longest(): { readonly scope: string; readonly items: Item[] } {
    let longest: { scope: string; items: Item[] } = { scope: '', items: [] }
    for (const [scope, items] of this.#ofScope)
      if (items.length > longest.items.length) longest = { scope, items }
    return longest
  }
}

/** In the order in which the scopes appear. */
export function groupByScope<Item extends { readonly scope: string }>(
  items: Iterable<Item>,
): ReadonlyMap<string, readonly Item[]> {
  const ofScope = new Map<string, Item[]>()
  for (const item of items) {
    const known = ofScope.get(item.scope)
    if (known === undefined) ofScope.set(item.scope, [item])
    else known.push(item)
  }
  return ofScope
}
