import { type PawlChannel, subscribe } from '@pawl/core'

/** After these messages, asking again about a key can give another answer. */
const NEWS = [
  'pawl:finished',
  'pawl:phase_failed',
  'pawl:stuck',
  'pawl:fenced_off',
] as const satisfies PawlChannel[]

/** Duplicates that wait for the first request. Waiting takes nothing but memory: no connection, no transaction. */
export class WaitingRoom {
  readonly #waiting = new Map<string, Set<() => void>>()
  #unsubscribe: (() => void)[] = []

  /** Resolves when there is news about the key in this process, and after `timeoutMs` at the latest. */
  async news(keyHash: string, timeoutMs: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        clearTimeout(timer)
        this.#leave(keyHash, wake)
        resolve()
      }
      const timer = setTimeout(wake, timeoutMs)
      this.#enter(keyHash, wake)
    })
  }

  #enter(keyHash: string, wake: () => void): void {
    // Messages are built only while somebody listens, so we listen only while somebody waits.
    if (this.#waiting.size === 0) {
      this.#unsubscribe = NEWS.map((name) => subscribe(name, (message) => this.#wake(message.keyHash)))
    }
    const others = this.#waiting.get(keyHash)
    if (others === undefined) this.#waiting.set(keyHash, new Set([wake]))
    else others.add(wake)
  }

  #leave(keyHash: string, wake: () => void): void {
    const others = this.#waiting.get(keyHash)
    others?.delete(wake)
    if (others?.size === 0) this.#waiting.delete(keyHash)
    if (this.#waiting.size > 0) return
    for (const unsubscribe of this.#unsubscribe) unsubscribe()
    this.#unsubscribe = []
  }

  #wake(keyHash: string): void {
    for (const wake of this.#waiting.get(keyHash) ?? []) wake()
  }
}
