import type { ReplayCache } from '@pawl/core'

interface Kept {
  readonly name: string
  readonly value: Uint8Array
  readonly ttlMs: number
}

/**
 * A cache in this process, which does what a test wants of it. It never lets a value expire by itself: no engine may rely on that.
 */
export class MemoryCache implements ReplayCache {
  readonly values = new Map<string, Uint8Array>()
  /** Everything that was ever written, the oldest first. */
  readonly written: Kept[] = []
  readonly looks: string[] = []
  readonly deleted: string[] = []
  /** Called before each command. What it returns is awaited. */
  before: (command: 'get' | 'set' | 'delete') => unknown = () => undefined

  async get(name: string): Promise<Uint8Array | null> {
    this.looks.push(name)
    await this.before('get')
    return this.values.get(name) ?? null
  }

  async set(
    name: string,
    value: Uint8Array,
    { ttlMs, onlyIfAbsent }: { readonly ttlMs: number; readonly onlyIfAbsent: boolean },
  ): Promise<void> {
    await this.before('set')
    this.written.push({ name, value, ttlMs })
    if (!onlyIfAbsent || !this.values.has(name)) this.values.set(name, value)
  }

  async delete(name: string): Promise<void> {
    await this.before('delete')
    this.deleted.push(name)
    this.values.delete(name)
  }
}
