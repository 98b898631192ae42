/** How much is under way at once: in all, and of one scope, so that work of one scope that hangs does not hold every place. */
export class Places {
  readonly #total: number
  readonly #perScope: number
  readonly #taken = new Map<string, number>()
  #sum = 0

  constructor(total: number, perScope: number) {
    this.#total = total
    this.#perScope = perScope
  }

  get free(): number {
    return this.#total - this.#sum
  }

  get isEmpty(): boolean {
    return this.#sum === 0
  }

  isFreeFor(scope: string): boolean {
    return this.free > 0 && !this.isFull(scope)
  }

  /** Whether the scope has all the places that it may have. */
  isFull(scope: string): boolean {
    return (this.#taken.get(scope) ?? 0) >= this.#perScope
  }

  /** The scopes of which that is true. */
  get fullScopes(): string[] {
    return [...this.#taken.keys()].filter((scope) => this.isFull(scope))
  }

  take(scope: string): void {
    this.#taken.set(scope, (this.#taken.get(scope) ?? 0) + 1)
    this.#sum++
  }

  giveBack(scope: string): void {
    const left = (this.#taken.get(scope) ?? 0) - 1
    if (left > 0) this.#taken.set(scope, left)
    else this.#taken.delete(scope)
    this.#sum--
  }
}

/** At least half of the places are there for the others, so that they are at most twice as slow as they are alone. */
export function placesPerScope(total: number): number {
  return Math.ceil(total / 2)
}
