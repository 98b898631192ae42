/**
 * A store for copies of answers in front of PostgreSQL, such as `redisCache` of `@pawl/redis`. It may lose, delay or keep what it
 * is given, and return old or foreign values: that costs speed and nothing else. Names and values mean nothing to it.
 */
export interface ReplayCache {
  /** Returns the value under a name, or null. */
  get(name: string): Promise<Uint8Array | null>
  /** `onlyIfAbsent`: leaves a value that is there as it is. */
  set(
    name: string,
    value: Uint8Array,
    options: { readonly ttlMs: number; readonly onlyIfAbsent: boolean },
  ): Promise<unknown>
  /** Forgets the value under a name. */
  delete(name: string): Promise<unknown>
}
