import { announce } from '../announce/announce.js'
import { serverIsAway, serverIsThere } from '../driver/server-is-away.js'
import type { ServerSigns } from '../driver/server-signs.js'
import type { Spread } from '../driver/spread.js'
import { StoreAwayError } from '../errors.js'

/** When requests stop waiting for a database that cannot be reached. */
export interface BreakerOptions {
  /** After so many failures in a row, with no answer in between. Default 5. */
  readonly failures?: number
  /** Then one request is let through to look in each interval of this length. Default 500 ms. */
  readonly probeMs?: number
}

/** While the breaker is open. */
interface Opened {
  readonly at: number
  /** When the next request may look. */
  lookAt: number
  refused: number
}

/**
 * Answers requests at once while the database cannot be reached. Only requests on their way in pass through here: what runs
 * goes on, and so do renewals of leases. It errs on the side of asking: whatever the server answers, to whichever of the
 * engine's sessions, closes it, and a request that was let through and hangs keeps nobody from looking after it.
 */
export class Breaker implements ServerSigns {
  readonly #options: Required<BreakerOptions> | null
  readonly #spread: Spread
  #answers = 0
  #failures = 0
  #opened: Opened | null = null
  #lastError: unknown = null

  /** `options`: null means that it never opens. */
  constructor(options: Required<BreakerOptions> | null, spread: Spread) {
    this.#options = options
    this.#spread = spread
  }

  get answers(): number {
    return this.#answers
  }

  get isOpen(): boolean {
    return this.#opened !== null
  }

  heard(error: unknown): void {
    if (error !== null && !serverIsThere(error, this.#spread.overServers)) return
    this.#answers++
    // Nearly always there is nothing to forget.
    if (this.#failures > 0) this.#close()
  }

  /** Returns the error to answer with, or null where the request may ask the database. */
  refusal(): StoreAwayError | null {
    if (this.#opened === null || this.#options === null) return null
    const now = performance.now()
    if (now < this.#opened.lookAt) {
      this.#opened.refused++
      return new StoreAwayError(Math.ceil(this.#opened.lookAt - now), this.#lastError)
    }
    this.#opened.lookAt = now + this.#options.probeMs
    this.#announce('half_open', this.#opened)
    return null
  }

  /** A request could not be answered. It counts only if the error shows that the database is away. */
  failed(error: unknown): void {
    if (this.#options === null) return
    if (!serverIsAway(error, this.#spread.overServers)) {
      this.heard(error)
      return
    }
    this.#failures++
    this.#lastError = error
    if (this.#opened !== null || this.#failures < this.#options.failures) return
    const at = performance.now()
    this.#opened = { at, lookAt: at + this.#options.probeMs, refused: 0 }
    this.#announce('opened', this.#opened)
  }

  #close(): void {
    const opened = this.#opened
    this.#opened = null
    if (opened !== null) this.#announce('closed', opened)
    this.#failures = 0
    this.#lastError = null
  }

  #announce(state: 'opened' | 'half_open' | 'closed', { at, refused }: Opened): void {
    const [failures, error] = [this.#failures, this.#lastError]
    announce('pawl:breaker', () => ({ state, failures, refused, openMs: performance.now() - at, error }))
  }
}
