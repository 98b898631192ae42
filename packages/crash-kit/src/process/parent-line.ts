import type { ChildSays, FromChild } from './messages.js'

/** A child's line to the process that started it. */
export class ParentLine {
  readonly #waiting = new Map<number, () => void>()
  #last = 0

  /** Resolves when the parent has heard it, and has done what goes with it. */
  ask(says: ChildSays): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.set(this.say(says), resolve)
    })
  }

  /** The same without waiting. What is said later is heard later. Gives the number that the answer will have. */
  say(says: ChildSays): number {
    const id = ++this.#last
    process.send?.({ id, says } satisfies FromChild)
    return id
  }

  heard(id: number): void {
    this.#waiting.get(id)?.()
    this.#waiting.delete(id)
  }
}
