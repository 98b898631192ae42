import { announce } from '../announce/announce.js'
import type { SessionPool } from '../driver/session-pool.js'
import {
  CACHE_EXPIRY_MARGIN_MS,
  CACHE_MARK_MS,
  CACHE_MAX_LOOKS,
  CACHE_MAX_TTL_MS,
  CACHE_MAX_VALUE_BYTES,
  CACHE_MAX_WRITES,
  CACHE_REST_MS,
} from '../limits.js'
import { type CacheEpoch, readCacheEpoch } from '../storage/cache/read-cache-epoch.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import type { Tables } from '../storage/tables.js'
import { CacheEpochs, type KnownEpoch } from './cache-epochs.js'
import { type CachedKey, readCachedKey, writeCachedKey } from './cached-key.js'
import type { ReplayCache } from './replay-cache.js'
import { SourceRest } from './source-rest.js'

export interface CachedKeysOptions {
  readonly cache: ReplayCache
  readonly primary: SessionPool
  readonly tables: Tables
  readonly namespace: string
  /** How long a request waits. */
  readonly timeoutMs: number
  /** What `close` waits for. */
  readonly afterwards: Set<Promise<void>>
}

/** What came of a look at the cache. */
type Look =
  | { readonly type: 'looked'; readonly value: Uint8Array | null }
  | { readonly type: 'failed'; readonly why: string; readonly error: unknown }

/**
 * Copies of keys, in front of PostgreSQL: of finished ones, and for a moment of some that are held. A copy is used only if it was
 * written under the epoch that PostgreSQL named within the last second. PostgreSQL alone grants: a key that is not found here, or
 * about which there is anything else to say than a replay or `in_flight`, is asked for there. Whatever is wrong with the cache can
 * make a request slower, by a bounded time, and nothing else.
 */
export class CachedKeys {
  readonly #options: CachedKeysOptions
  readonly #epochs: CacheEpochs
  readonly #rest = new SourceRest(CACHE_REST_MS)
  #underWay = { looks: 0, writes: 0 }
  #announced: string | null = null

  constructor(options: CachedKeysOptions) {
    this.#options = options
    const { namespace, tables } = options
    this.#epochs = new CacheEpochs({ namespace, schema: tables.schema }, () => this.#askForEpoch())
  }

  /**
   * What a copy has to be written under: the epoch that was known before the row was read or written. A key that was forgotten
   * since then must not be found under the epoch that came after.
   */
  get epoch(): KnownEpoch | null {
    return this.#epochs.last
  }

  /** Returns once the epoch is known, or could not be read. */
  learn(): Promise<void> {
    return this.#epochs.learn()
  }

  /** Returns a key's row as it was a moment ago, if that may be used. Never throws. */
  async find(scope: string, key: string): Promise<KeyRow | null> {
    const epoch = this.#epochs.fresh
    if (epoch === null || !this.#mayLook()) return null
    const name = epoch.nameOf(scope, key)
    const look = await this.#lookInTime(name)
    if (look.type === 'failed') {
      this.#rest.missed(look.why, look.error)
      return null
    }
    // Those that a cache has left unanswered may stay so, and must not count for ever.
    if (this.#rest.isResting) this.#underWay = { looks: 0, writes: 0 }
    this.#rest.found()
    if (look.value === null || !epoch.isFresh) return null
    const nowMs = epoch.databaseNowMs
    const cached = read(this.#options.tables, look.value, { scope, key, name }, epoch, nowMs)
    return cached !== null && nowMs < cached.usableUntilMs ? cached.row : null
  }

  /** Keeps a copy of a row that PostgreSQL has committed. Nobody waits for it. */
  keep(row: KeyRow, under: KnownEpoch | null): void {
    if (under === null || !this.#mayWrite()) return
    const cached = row.response === null ? heldKey(row) : finishedKey(row, under)
    if (cached === null) return
    const name = under.nameOf(row.scope, row.key)
    if ((row.response?.body.length ?? 0) > CACHE_MAX_VALUE_BYTES) return this.drop(row.scope, row.key)
    const value = writeCachedKey(this.#options.tables, cached, name, under)
    const leftMs = Math.floor(cached.usableUntilMs - under.databaseNowMs)
    if (leftMs < 1) return
    const onlyIfAbsent = row.response === null
    this.#write((cache) =>
      cache.set(name, value, { ttlMs: Math.min(leftMs, CACHE_MAX_TTL_MS), onlyIfAbsent }),
    )
  }

  /** Drops the copy of a key that is no longer as it was. Nobody waits for it, and nobody relies on it. */
  drop(scope: string, key: string): void {
    const under = this.#epochs.last
    if (under === null || !this.#mayWrite()) return
    const name = under.nameOf(scope, key)
    this.#write((cache) => cache.delete(name))
  }

  #mayLook(): boolean {
    const { isResting } = this.#rest
    return (isResting || this.#underWay.looks < CACHE_MAX_LOOKS) && this.#rest.mayAsk()
  }

  #mayWrite(): boolean {
    return this.#underWay.writes < CACHE_MAX_WRITES && !this.#rest.isResting
  }

  #write(write: (cache: ReplayCache) => Promise<unknown>): void {
    const { cache } = this.#options
    const underWay = this.#underWay
    underWay.writes++
    const ended = (): void => void underWay.writes--
    // A cache that cannot be written to is of no use, and is found out by the next looks.
    void (async () => write(cache))().then(ended, ended)
  }

  #lookInTime(name: string): Promise<Look> {
    const { timeoutMs, cache } = this.#options
    const underWay = this.#underWay
    underWay.looks++
    const looked = (async () => cache.get(name))().then(
      (value): Look => ({ type: 'looked', value: value ?? null }),
      (error: unknown): Look => ({ type: 'failed', why: FAILED, error }),
    )
    void looked.then(() => underWay.looks--)
    return inTime(looked, timeoutMs)
  }

  async #askForEpoch(): Promise<CacheEpoch> {
    const { primary, tables, afterwards } = this.#options
    const asked = primary.with('reserve', async (session) => {
      if (tables.spread.overServers) throw new Error(OVER_SERVERS)
      const epoch = await readCacheEpoch(session, tables)
      if (epoch === null) throw new Error(NO_EPOCH)
      return epoch
    })
    const ended: Promise<void> = asked.then(
      () => void (this.#announced = null),
      (error: unknown) => this.#announce(error),
    )
    afterwards.add(ended)
    void ended.then(() => afterwards.delete(ended))
    return asked
  }

  /** Once for each reason, until the epoch is known again. */
  #announce(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error)
    if (reason === this.#announced) return
    this.#announced = reason
    announce('pawl:warning', () => ({ message: UNKNOWN_EPOCH, error }))
  }
}

/** Whatever a value is, it is nobody's error. */
function read(
  tables: Tables,
  value: unknown,
  of: Parameters<typeof readCachedKey>[2],
  epoch: KnownEpoch,
  nowMs: number,
): CachedKey | null {
  try {
    return value instanceof Uint8Array ? readCachedKey(tables, value, of, epoch, nowMs) : null
  } catch {
    return null
  }
}

/** A finished key is used until a while before it may be deleted. */
function finishedKey(row: KeyRow, { databaseNowMs }: KnownEpoch): CachedKey | null {
  if (row.expiresMs === null) return null
  const usableUntilMs = Math.min(row.expiresMs - CACHE_EXPIRY_MARGIN_MS, databaseNowMs + CACHE_MAX_TTL_MS)
  return { row, usableUntilMs }
}

/** A key that is held is used for a moment, and never beyond its lease. It may be given back or finished at any time. */
function heldKey(row: KeyRow): CachedKey | null {
  const { status, leaseUntilMs, nowMs } = row
  if (status !== 'running' || leaseUntilMs === null) return null
  return { row, usableUntilMs: Math.min(leaseUntilMs, nowMs + CACHE_MARK_MS) }
}

/**
 * Gives up after a while. When this process itself was busy for longer, an answer that has arrived meanwhile still counts: it is
 * read in the turn of the event loop after the timer's.
 */
function inTime(looked: Promise<Look>, timeoutMs: number): Promise<Look> {
  return new Promise((resolve) => {
    const late = (): void => resolve({ type: 'failed', why: tooLate(timeoutMs), error: null })
    const timer = setTimeout(() => setImmediate(late), timeoutMs)
    void looked.then((look) => {
      clearTimeout(timer)
      resolve(look)
    })
  })
}

const tooLate = (timeoutMs: number): string =>
  `The cache did not answer within ${timeoutMs} ms. Everything comes from PostgreSQL meanwhile.`

const FAILED = 'The cache could not be asked. Everything comes from PostgreSQL meanwhile.'

const UNKNOWN_EPOCH =
  'PostgreSQL could not say which cached keys are still true, so none is used. If a right is missing: the cache needs SELECT, ' +
  'INSERT and UPDATE on cache_epoch.'

const OVER_SERVERS =
  'The tables are distributed over several servers, each of which could lose commits without the others. Nothing is cached.'

const NO_EPOCH =
  'The pool leads to a server that is in recovery, or whose cache_epoch was changed by hand. Nothing is cached.'
