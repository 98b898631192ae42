import type { ReplayCache } from '@pawl/core'

/** What a cache does instead of what it should, in turn. It is honest often enough for engines to rely on it. */
const MISCHIEF = [
  'honest',
  'late',
  'honest',
  'old',
  'honest',
  'forgets',
  'honest',
  'other',
  'late',
  'damaged',
  'honest',
  'fails',
] as const
type Mischief = (typeof MISCHIEF)[number]

/** Turns of the event loop by which a late answer is late. */
const LATE_TURNS = 3

/**
 * A cache at its worst: it forgets, answers late or not at all, keeps what it was to delete, and returns values that are outdated,
 * damaged, or another key's. It never lets anything expire.
 */
export class HostileCache implements ReplayCache {
  /** Every value that it was ever given, by name, the oldest first. */
  readonly #values = new Map<string, Uint8Array[]>()
  #commands = 0

  async get(name: string): Promise<Uint8Array | null> {
    const mischief = await this.#next()
    const values = this.#values.get(name) ?? []
    const last = values.at(-1) ?? null
    switch (mischief) {
      case 'honest':
      case 'late':
        return last
      case 'old':
        return values[0] ?? null
      case 'forgets':
        return null
      case 'other':
        return [...this.#values].findLast(([other]) => other !== name)?.[1].at(-1) ?? null
      case 'damaged':
        return last === null
          ? Buffer.from('not a value')
          : last.map((byte, at) => (at === 99 ? byte ^ 1 : byte))
      case 'fails':
        throw new Error('the cache is away')
    }
  }

  async set(
    name: string,
    value: Uint8Array,
    { onlyIfAbsent }: { readonly onlyIfAbsent: boolean },
  ): Promise<void> {
    const mischief = await this.#next()
    if (mischief === 'forgets' || mischief === 'fails') return
    const values = this.#values.get(name) ?? []
    if (!onlyIfAbsent || values.length === 0) this.#values.set(name, [...values, value])
  }

  async delete(name: string): Promise<void> {
    const mischief = await this.#next()
    if (mischief !== 'forgets') this.#values.delete(name)
  }

  async #next(): Promise<Mischief> {
    const mischief = MISCHIEF[this.#commands++ % MISCHIEF.length] as Mischief
    if (mischief === 'late')
      for (let turn = 0; turn < LATE_TURNS; turn++) await new Promise((resolve) => setImmediate(resolve))
    return mischief
  }
}
