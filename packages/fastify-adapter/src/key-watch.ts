import type { FoundKey, KeyLook } from '@pawl/core/internal'
import { FIRST_POLL_MS, MAX_POLL_MS, TURN_MS } from './limits.js'

/** Why a wait ends. */
export type Turn =
  /** It is time to ask the engine. `found`: the key as it was read for all who wait; null where it has to be asked for. */
  | { readonly type: 'ask'; readonly found: FoundKey | null }
  | { readonly type: 'unavailable'; readonly error: unknown }
  /** Nothing has come of it in time, or nobody waits for the answer any more. */
  | { readonly type: 'over' }

/** One request that waits. */
export interface Waiter {
  /** Whether the engine would run the key for it. One that is enqueued only waits for the completer. */
  readonly takesOver: boolean
  readonly wake: (turn: Turn) => void
}

/**
 * All requests of a process that wait for one key, and the one question that is asked for all of them. Only when something
 * is to be done are they woken: all of them if there is an answer, otherwise one, which takes the key over while the others
 * keep waiting.
 */
export class KeyWatch {
  readonly #look: () => Promise<KeyLook>
  /** In the order in which they came. */
  readonly #waiters = new Set<Waiter>()
  #pollMs: number = FIRST_POLL_MS
  #timer: NodeJS.Timeout | undefined
  #isLooking = false
  /** There was news while it looked. */
  #looksAgain = false
  /** There was news while all of them had their turn. */
  #missedNews = false
  /** Before that, on the monotonic clock, whoever was woken last is given the time to take the key over. */
  #nextTurnAt = 0

  constructor(look: () => Promise<KeyLook>) {
    this.#look = look
  }

  get isEmpty(): boolean {
    return this.#waiters.size === 0
  }

  add(waiter: Waiter): void {
    const isFirst = this.isEmpty
    this.#waiters.add(waiter)
    if (!isFirst) return
    // What happened while nobody was here is not known.
    this.#pollMs = FIRST_POLL_MS
    if (this.#missedNews) this.news()
    else this.#schedule(Infinity)
  }

  remove(waiter: Waiter): void {
    this.#waiters.delete(waiter)
    if (this.isEmpty) clearTimeout(this.#timer)
  }

  /** Something has happened to the key in this process. */
  news(): void {
    this.#missedNews = this.isEmpty
    if (this.isEmpty) return
    this.#pollMs = FIRST_POLL_MS
    void this.#lookNow()
  }

  /** Wakes all of them. */
  wakeAll(turn: Turn): void {
    for (const waiter of this.#waiters) this.#wake(waiter, turn)
  }

  #wake(waiter: Waiter, turn: Turn): void {
    this.remove(waiter)
    waiter.wake(turn)
  }

  #schedule(atMostMs: number): void {
    clearTimeout(this.#timer)
    // Jitter, so that many keys, and many processes, do not ask at the same moment.
    const pollMs = this.#pollMs * (0.5 + Math.random() / 2)
    this.#pollMs = Math.min(this.#pollMs * 2, MAX_POLL_MS)
    this.#timer = setTimeout(() => void this.#lookNow(), Math.min(pollMs, atMostMs))
  }

  async #lookNow(): Promise<void> {
    clearTimeout(this.#timer)
    if (this.#isLooking) {
      this.#looksAgain = true
      return
    }
    this.#isLooking = true
    let look: KeyLook
    do {
      this.#looksAgain = false
      look = await this.#look().catch((error: unknown): KeyLook => ({ type: 'unavailable', error }))
    } while (this.#looksAgain && look.type === 'busy')
    this.#isLooking = false
    if (this.isEmpty) return
    this.#tell(look)
    if (!this.isEmpty) this.#schedule(look.type === 'busy' ? Math.ceil(look.dueInMs) : Infinity)
  }

  #tell(look: KeyLook): void {
    switch (look.type) {
      case 'busy':
      case 'locked':
        return
      case 'answered':
        this.wakeAll({ type: 'ask', found: look.row })
        return
      case 'unavailable':
        this.wakeAll(look)
        return
      case 'idle':
        this.#wakeOne([...this.#waiters].find(({ takesOver }) => takesOver))
        return
      case 'gone':
        this.#wakeOne([...this.#waiters][0])
    }
  }

  #wakeOne(waiter: Waiter | undefined): void {
    const now = performance.now()
    if (waiter === undefined || now < this.#nextTurnAt) return
    this.#nextTurnAt = now + TURN_MS
    this.#wake(waiter, { type: 'ask', found: null })
  }
}
