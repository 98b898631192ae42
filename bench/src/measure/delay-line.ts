interface Held {
  readonly due: number
  readonly deliver: () => void
}

/**
 * Delivers everything the same time later, in order. Node's timers count in whole milliseconds, which is as much as the
 * delay itself: while something is held, this looks at the clock in every turn of the event loop instead. That keeps a
 * core busy, so it belongs in a process of its own.
 */
export class DelayLine {
  /** Must not change while something is held, or the order would be lost. */
  delayMs = 0
  #held: Held[] = []
  #next = 0
  #isTurning = false

  put(deliver: () => void): void {
    if (this.delayMs === 0) return deliver()
    this.#held.push({ due: performance.now() + this.delayMs, deliver })
    if (this.#isTurning) return
    this.#isTurning = true
    setImmediate(this.#turn)
  }

  readonly #turn = (): void => {
    for (let first = this.#held[this.#next]; first !== undefined; first = this.#held[this.#next]) {
      if (first.due > performance.now()) {
        setImmediate(this.#turn)
        return
      }
      this.#next++
      first.deliver()
    }
    this.#held = []
    this.#next = 0
    this.#isTurning = false
  }
}
