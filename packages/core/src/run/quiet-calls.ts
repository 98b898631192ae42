import { MAX_QUIET_CALLS } from '../limits.js'

/**
 * When the quiet time of each call that this process has heard of ends, on its monotonic clock. The database's clock may be
 * set: a process that has seen a call before does not rely on that clock alone for how much time has passed.
 */
export class QuietCalls {
  readonly #calls = new Map<string, { readonly deadlineMs: number; readonly endsAt: number }>()

  /** A call was declared, or found declared. `leftMs`: what is left of its time and quiet time by the database's clock. */
  watch(keyId: string, deadlineMs: number, leftMs: number): void {
    this.#calls.delete(keyId)
    this.#calls.set(keyId, { deadlineMs, endsAt: performance.now() + leftMs })
    const [oldest] = this.#calls.keys()
    if (this.#calls.size > MAX_QUIET_CALLS && oldest !== undefined) this.#calls.delete(oldest)
  }

  /** Returns how much is left: by the database's clock, or by our own if that has seen less time pass. */
  leftMs(keyId: string, deadlineMs: number, leftMs: number): number {
    const known = this.#calls.get(keyId)
    // The deadline tells one declaration of a call from the next.
    if (known?.deadlineMs === deadlineMs) return Math.max(leftMs, Math.ceil(known.endsAt - performance.now()))
    this.watch(keyId, deadlineMs, leftMs)
    return leftMs
  }

  forget(keyId: string): void {
    this.#calls.delete(keyId)
  }
}
