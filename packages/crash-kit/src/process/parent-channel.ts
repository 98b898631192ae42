import type { ChildMessage, FromChild } from './messages.js'

/** A child's channel to the process that started it. */
export class ParentChannel {
  readonly #waiting = new Map<number, () => void>()
  #last = 0

  /** Resolves when the parent has received the message, and has done what belongs to it. */
  sendAndWait(message: ChildMessage): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.set(this.send(message), resolve)
    })
  }

  /** Does the same without waiting. Messages arrive in order. Returns the id that the acknowledgement will have. */
  send(message: ChildMessage): number {
    const id = ++this.#last
    process.send?.({ id, message } satisfies FromChild)
    return id
  }

  acknowledged(id: number): void {
    this.#waiting.get(id)?.()
    this.#waiting.delete(id)
  }
}
