/** Wakes whoever in this process waits for a kind of work. Others find the work when they next look. */
export class WakeSignal {
  readonly #listeners = new Set<() => void>()

  /** Returns a function that stops listening. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  wake(): void {
    for (const listener of this.#listeners) listener()
  }
}
