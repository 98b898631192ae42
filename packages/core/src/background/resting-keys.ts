import { MAX_RESTING_KEYS } from '../limits.js'
import { backOffMs } from '../run/back-off.js'

/** Keys that could not be taken although their rows look free, such as one that a frozen session has locked. */
export class RestingKeys {
  readonly #keys = new Map<string, { readonly until: number; readonly times: number }>()

  add(keyId: string): void {
    const times = (this.#keys.get(keyId)?.times ?? 0) + 1
    this.#keys.delete(keyId)
    this.#keys.set(keyId, { until: performance.now() + backOffMs(times), times })
    dropOldest(this.#keys)
  }

  /** The keys to leave alone for now. Those that rested long ago are forgotten. */
  ids(): ReadonlySet<string> {
    const now = performance.now()
    for (const [keyId, { until, times }] of this.#keys) {
      if (now > until + backOffMs(times + 1) * 2) this.#keys.delete(keyId)
    }
    return new Set([...this.#keys].filter(([, { until }]) => until > now).map(([keyId]) => keyId))
  }
}

/** Keys that were tried, and may be due again. */
export class TriedKeys {
  readonly #keys = new Map<string, number>()
  #tries = 0

  add(keyId: string): void {
    this.#keys.delete(keyId)
    this.#keys.set(keyId, ++this.#tries)
    dropOldest(this.#keys)
  }

  has(keyId: string): boolean {
    return this.#keys.has(keyId)
  }

  /** What was tried longest ago comes first. */
  inOrder<Key extends { readonly id: string }>(keys: readonly Key[]): Key[] {
    return keys.toSorted((a, b) => (this.#keys.get(a.id) ?? 0) - (this.#keys.get(b.id) ?? 0))
  }
}

function dropOldest(keys: Map<string, unknown>): void {
  const [oldest] = keys.keys()
  if (keys.size > MAX_RESTING_KEYS && oldest !== undefined) keys.delete(oldest)
}
