import { KeyedHash } from '../keyed-hash.js'
import { lengthPrefixed } from '../length-prefixed.js'
import { CACHE_EPOCH_ASK_MS, CACHE_EPOCH_MAX_AGE_MS } from '../limits.js'
import { type Moment, msSince, thisMoment } from '../moment.js'
import { sha256 } from '../sha256.js'
import type { CacheEpoch } from '../storage/cache/read-cache-epoch.js'
import { CARRIED_FORMAT } from './cached-key.js'

/** Whose keys are cached: parts of every name in the cache. */
export interface CacheOwner {
  readonly namespace: string
  readonly schema: string
}

/** An epoch of cached keys, and when it was asked for. Two of them are the same if their tokens are. */
export class KnownEpoch {
  /** Says what a value was written under. */
  readonly token: Buffer
  /** Signs values. */
  readonly signing: KeyedHash
  readonly #naming: KeyedHash
  readonly #place: string
  readonly #asked: Moment
  readonly #nowMs: number

  constructor(
    owner: CacheOwner,
    { secret, epoch, written, database, server, nowMs }: CacheEpoch,
    asked: Moment,
  ) {
    const token = sha256(lengthPrefixed([CARRIED_FORMAT, database, server, written, epoch]), 'hex')
    this.token = Buffer.from(token, 'hex')
    this.signing = new KeyedHash(Buffer.from(`values:${secret}`))
    this.#naming = new KeyedHash(Buffer.from(`names:${secret}`))
    this.#place = lengthPrefixed([owner.namespace, database, owner.schema])
    this.#asked = asked
    this.#nowMs = nowMs
  }

  /** Whether it may be gone by. Until then, whoever has raised the epoch waits. */
  get isFresh(): boolean {
    return msSince(this.#asked) <= CACHE_EPOCH_MAX_AGE_MS
  }

  get isToBeAskedAgain(): boolean {
    return msSince(this.#asked) >= CACHE_EPOCH_ASK_MS
  }

  /** The database's clock by now, at the most. */
  get databaseNowMs(): number {
    // Its clock was rounded down.
    return this.#nowMs + 1 + msSince(this.#asked)
  }

  /** What the cache calls a key. Nobody who sees only the cache can find out which key it is, or name another. */
  nameOf(scope: string, key: string): string {
    return this.#naming.hash(Buffer.from(this.#place + lengthPrefixed([scope, key])))
  }
}

/** What this process knows of the epoch. Nobody waits for it: as long as nothing is known, PostgreSQL decides. */
export class CacheEpochs {
  readonly #ask: () => Promise<KnownEpoch>
  #known: KnownEpoch | null = null
  #asked: Moment | null = null
  #asking: Promise<void> | null = null

  /** `ask` announces by itself what goes wrong. */
  constructor(ask: () => Promise<KnownEpoch>) {
    this.#ask = ask
  }

  /** What was last known, however old. What is written under an old epoch is of no use, and does no harm. */
  get last(): KnownEpoch | null {
    return this.#known
  }

  /** What may be gone by; null if nothing is known that is fresh. Asks in good time, and only while somebody needs it. */
  get fresh(): KnownEpoch | null {
    const known = this.#known
    if (known === null || known.isToBeAskedAgain) this.#askOnce()
    return known !== null && known.isFresh ? known : null
  }

  /** Asks, if it is time to. Returns once there is an answer, or none. */
  async learn(): Promise<void> {
    this.#askOnce()
    await this.#asking
  }

  #askOnce(): void {
    if (this.#asking !== null) return
    if (this.#asked !== null && msSince(this.#asked) < CACHE_EPOCH_ASK_MS) return
    this.#asked = thisMoment()
    this.#asking = this.#ask().then(
      (epoch) => {
        this.#asking = null
        this.#known = epoch
      },
      () => {
        this.#asking = null
      },
    )
  }
}
