import type { ReplayCache } from '@pawl/core'

/** What a cache does with one command. */
export type Mood =
  | 'honest'
  /** It forgets what it was told, and has nothing. */
  | 'lost'
  /** It takes a value only when the next command comes. */
  | 'late'
  /** It answers with a value that it had under this name before. */
  | 'old'
  /** It answers with what it has under another name. */
  | 'swapped'
  /** Some byte is another. */
  | 'changed'
  /** Some bytes are missing. */
  | 'cut'
  | 'not bytes'
  | 'fails'
  | 'throws'
  | 'hangs'

export const MOODS: readonly Mood[] = [
  'honest',
  'lost',
  'late',
  'old',
  'swapped',
  'changed',
  'cut',
  'not bytes',
  'fails',
  'throws',
  'hangs',
]

const LAST_BYTES = 4

/** A cache that does its worst. Nothing in it ever expires. */
export class MoodyCache implements ReplayCache {
  readonly #values = new Map<string, Uint8Array>()
  /** Everything that was ever written, under each name, the oldest first. */
  readonly #history = new Map<string, Uint8Array[]>()
  readonly #late: (() => void)[] = []
  readonly #moods: Iterator<Mood>
  readonly #pick: () => number
  /** Whatever its mood. */
  isHonest = false

  /** `pick` chooses among what it could answer. */
  constructor(moods: Iterator<Mood>, pick: () => number) {
    this.#moods = moods
    this.#pick = pick
  }

  /** As after a restart from a snapshot: each name has some value that it once had. */
  bringBackOldValues(): void {
    for (const [name, values] of this.#history)
      this.#values.set(name, this.#oneOf(values) ?? new Uint8Array())
  }

  // Not async: a cache may also throw at once.
  get(name: string): Promise<Uint8Array | null> {
    const mood = this.#next()
    const has = this.#values.get(name) ?? null
    switch (mood) {
      case 'honest':
      case 'late':
        return Promise.resolve(has)
      case 'lost':
        return Promise.resolve(null)
      case 'old':
        return Promise.resolve(this.#oneOf(this.#history.get(name) ?? []))
      case 'swapped':
        return Promise.resolve(this.#oneOf([...this.#history.values()].flat()))
      case 'changed':
        return Promise.resolve(has === null ? null : this.#changed(has))
      case 'cut':
        return Promise.resolve(has?.subarray(0, this.#pick() % has.length) ?? null)
      case 'not bytes':
        return Promise.resolve({ length: 1_000 } as unknown as Uint8Array)
      case 'fails':
        return Promise.reject(new Error('the cache failed'))
      case 'throws':
        throw new Error('the cache threw')
      case 'hangs':
        return new Promise(() => {})
    }
  }

  set(name: string, value: Uint8Array, { onlyIfAbsent }: { readonly onlyIfAbsent: boolean }): Promise<void> {
    const mood = this.#next()
    const kept = new Uint8Array(value)
    this.#history.set(name, [...(this.#history.get(name) ?? []), kept])
    const put = (): void => {
      if (!onlyIfAbsent || !this.#values.has(name)) this.#values.set(name, kept)
    }
    return this.#obey(mood, put)
  }

  delete(name: string): Promise<void> {
    return this.#obey(this.#next(), () => void this.#values.delete(name))
  }

  #obey(mood: Mood, act: () => void): Promise<void> {
    switch (mood) {
      case 'lost':
        return Promise.resolve()
      case 'late':
        this.#late.push(act)
        return Promise.resolve()
      case 'fails':
        return Promise.reject(new Error('the cache failed'))
      case 'throws':
        throw new Error('the cache threw')
      case 'hangs':
        return new Promise(() => {})
      default:
        act()
        return Promise.resolve()
    }
  }

  #next(): Mood {
    for (const act of this.#late.splice(0)) act()
    return this.isHonest ? 'honest' : (this.#moods.next().value as Mood)
  }

  #oneOf<T>(among: readonly T[]): T | null {
    return among[this.#pick() % Math.max(1, among.length)] ?? null
  }

  #changed(value: Uint8Array): Uint8Array {
    const changed = new Uint8Array(value)
    // The body comes last, and is the shortest part of it.
    const from = this.#pick() % 2 === 0 ? 0 : Math.max(0, changed.length - LAST_BYTES)
    const at = from + (this.#pick() % (changed.length - from))
    changed[at] = ((changed[at] ?? 0) + 1) % 256
    return changed
  }
}
