import { announce } from '../announce/announce.js'
import type { Session } from '../driver/session.js'
import {
  CACHE_EXPIRY_MARGIN_MS,
  CACHE_FAILED_WRITES,
  CACHE_MARK_MS,
  CACHE_MAX_LOOKS,
  CACHE_MAX_TTL_MS,
  CACHE_MAX_VALUE_BYTES,
  CACHE_MAX_WRITES,
  CACHE_REST_MS,
} from '../limits.js'
import { readCacheEpoch } from '../storage/cache/read-cache-epoch.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import type { Tables } from '../storage/tables.js'
import type { Moment } from '../moment.js'
import { type AskedPrimary, askPrimary } from './ask-primary.js'
import { CacheEpochs, KnownEpoch } from './cache-epochs.js'
import { type CachedKey, readCachedKey, writeCachedKey } from './cached-key.js'
import type { ReplayCache } from './replay-cache.js'
import { SideSource } from './side-source.js'

export interface CachedKeysOptions extends AskedPrimary {
  readonly cache: ReplayCache
  readonly tables: Tables
  readonly namespace: string
  /** How long a request waits. */
  readonly timeoutMs: number
}

/**
 * Copies of keys, in front of PostgreSQL: of finished ones, and for a moment of some that are held. A copy is used only if it was
 * written under the epoch that PostgreSQL named within the last second. PostgreSQL alone grants: a key that is not found here, or
 * about which there is anything else to say than a replay or `in_flight`, is asked for there. Whatever is wrong with the cache can
 * make a request slower, by a bounded time, and nothing else.
 */
export class CachedKeys {
  readonly #options: CachedKeysOptions
  readonly #epochs: CacheEpochs
  readonly #source: SideSource
  #underWay = { looks: 0, writes: 0 }
  #failedWrites = 0
  #announced: string | null = null

  constructor(options: CachedKeysOptions) {
    this.#options = options
    const { timeoutMs } = options
    this.#epochs = new CacheEpochs(() => this.#askForEpoch())
    const restMs = CACHE_REST_MS
    this.#source = new SideSource({ timeoutMs, restMs, tooLate: tooLate(timeoutMs), failed: FAILED })
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
    const look = await this.#source.ask(() => this.#look(name))
    if (look === null) return null
    // Those that a cache has left unanswered may stay so, and must not count for ever.
    if (look.isBack) this.#underWay = { looks: 0, writes: 0 }
    if (look.told === null || !epoch.isFresh) return null
    const nowMs = epoch.databaseNowMs
    const cached = read(this.#options.tables, look.told, { scope, key, name }, epoch, nowMs)
    return cached !== null && nowMs < cached.usableUntilMs ? cached.row : null
  }

  /** Keeps a copy of a row that PostgreSQL has committed. Nobody waits for it. Never throws: the request has its answer. */
  keep(row: KeyRow, under: KnownEpoch | null): void {
    try {
      this.#keep(row, under)
    } catch {
      // A codec of the application may fail to seal the copy. What is not cached is in PostgreSQL.
    }
  }

  #keep(row: KeyRow, under: KnownEpoch | null): void {
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
    return this.#source.isResting || this.#underWay.looks < CACHE_MAX_LOOKS
  }

  #mayWrite(): boolean {
    return this.#underWay.writes < CACHE_MAX_WRITES && !this.#source.isResting
  }

  #write(write: (cache: ReplayCache) => Promise<unknown>): void {
    const { cache } = this.#options
    const underWay = this.#underWay
    underWay.writes++
    void (async () => write(cache))().then(
      () => {
        underWay.writes--
        this.#failedWrites = 0
      },
      (error: unknown) => {
        underWay.writes--
        // One that is away is found out by the next looks.
        if (++this.#failedWrites === CACHE_FAILED_WRITES)
          announce('pawl:warning', () => ({ message: TAKES_NOTHING, error }))
      },
    )
  }

  async #look(name: string): Promise<{ readonly type: 'told'; readonly told: Uint8Array | null }> {
    const { cache } = this.#options
    const underWay = this.#underWay
    underWay.looks++
    try {
      return { type: 'told', told: (await cache.get(name)) ?? null }
    } finally {
      underWay.looks--
    }
  }

  async #askForEpoch(): Promise<KnownEpoch> {
    try {
      const epoch = await askPrimary(this.#options, (session, asked) => this.#readEpoch(session, asked))
      this.#announced = null
      return epoch
    } catch (error) {
      this.#announce(error)
      throw error
    }
  }

  async #readEpoch(session: Session, asked: Moment): Promise<KnownEpoch> {
    const { tables, namespace } = this.#options
    if (tables.spread.overServers) throw new Error(OVER_SERVERS)
    const epoch = await readCacheEpoch(session, tables)
    if (epoch === null) throw new Error(NO_EPOCH)
    return new KnownEpoch({ namespace, schema: tables.schema }, epoch, asked)
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

const tooLate = (timeoutMs: number): string =>
  `The cache did not answer within ${timeoutMs} ms. Everything comes from PostgreSQL meanwhile.`

const FAILED = 'The cache could not be asked. Everything comes from PostgreSQL meanwhile.'

const TAKES_NOTHING =
  'The cache answers, but takes no values: it may be full, without a policy for eviction, or a replica. It is of no use until it does.'

const UNKNOWN_EPOCH =
  'PostgreSQL could not say which cached keys are still true, so none is used. If a right is missing: the cache needs SELECT, ' +
  'INSERT and UPDATE on cache_epoch.'

const OVER_SERVERS =
  'The tables are distributed over several servers, each of which could lose commits without the others. Nothing is cached.'

const NO_EPOCH =
  'The pool leads to a server that is in recovery, or whose cache_epoch was changed by hand. Nothing is cached.'
