import type { Pool } from 'pg'
import { announce } from '../announce/announce.js'
import { openSession } from '../driver/open-session.js'
import type { Session, SessionOptions } from '../driver/session.js'
import { RENEWALS_PER_LEASE } from '../limits.js'
import { type Hold, renewLeases } from '../storage/hold-statements.js'
import type { Tables } from '../storage/tables.js'

/** A lease that is being kept while its call runs. */
export class KeptLease {
  readonly hold: Hold
  readonly leaseMs: number
  readonly onLost: () => void
  dueAt: number
  lost = false
  readonly #keeper: LeaseKeeper

  constructor(keeper: LeaseKeeper, hold: Hold, leaseMs: number, leasedAt: number, onLost: () => void) {
    this.#keeper = keeper
    this.hold = hold
    this.leaseMs = leaseMs
    this.dueAt = leasedAt + leaseMs / RENEWALS_PER_LEASE
    this.onLost = onLost
  }

  /** Ends the renewals, after the last one under way: a late renewal would disturb the transaction to come. */
  async stop(): Promise<'kept' | 'lost'> {
    await this.#keeper.stopKeeping(this)
    return this.lost ? 'lost' : 'kept'
  }
}

/**
 * Renews the leases of running calls: one statement for all that are due, on a connection of its own that is open only
 * while there is something to renew. A call that ends before its first renewal costs nothing.
 */
export class LeaseKeeper {
  readonly #pool: Pool
  readonly #tables: Tables
  readonly #options: SessionOptions
  readonly #entries = new Set<KeptLease>()
  #timer: NodeJS.Timeout | null = null
  /** When the timer fires, on the monotonic clock; never, while there is none. */
  #wakesAt = Infinity
  #round: Promise<void> | null = null
  #session: Session | null = null
  #halted = false

  constructor(pool: Pool, tables: Tables, options: SessionOptions) {
    this.#pool = pool
    this.#tables = tables
    this.#options = options
  }

  /** `leasedAt`: since when the lease runs, on the monotonic clock. Renewals are due by its age, not the call's. */
  keep(hold: Hold, leaseMs: number, leasedAt: number, onLost: () => void): KeptLease {
    const lease = new KeptLease(this, hold, leaseMs, leasedAt, onLost)
    this.#entries.add(lease)
    if (lease.dueAt < this.#wakesAt) this.#schedule()
    return lease
  }

  /** Comes back once no renewal of it is under way. */
  async stopKeeping(lease: KeptLease): Promise<void> {
    this.#entries.delete(lease)
    await this.#round
    // Otherwise the timer is early at most: it is not worth looking at all entries each time that a call ends.
    if (this.#entries.size === 0) this.#schedule()
  }

  /** Ends all renewals at once, as the end of the process would. */
  halt(): void {
    this.#halted = true
    this.#entries.clear()
    this.#session?.cut()
    this.#schedule()
  }

  #schedule(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    this.#wakesAt = Infinity
    if (this.#round !== null) return
    // After a halt as well: a connection may have come in the meantime, and would be left behind.
    if (this.#entries.size === 0 || this.#halted) {
      this.#session?.release()
      this.#session = null
      return
    }
    this.#wakesAt = this.#earliest()
    this.#timer = setTimeout(() => this.#onTimer(), Math.max(0, this.#wakesAt - performance.now()))
  }

  #earliest(): number {
    let earliest = Infinity
    for (const { dueAt } of this.#entries) earliest = Math.min(earliest, dueAt)
    return earliest
  }

  #onTimer(): void {
    // What it was set for may have ended meanwhile. Timers fire up to a millisecond early.
    if (this.#earliest() > this.#wakesAt) this.#schedule()
    else this.#startRound()
  }

  #startRound(): void {
    this.#round = this.#renewDue().finally(() => {
      this.#round = null
      this.#schedule()
    })
  }

  async #renewDue(): Promise<void> {
    const now = performance.now()
    // What would be due within half a period goes along: fewer, fuller statements.
    const due = [...this.#entries].filter(
      (entry) => entry.dueAt <= now + entry.leaseMs / RENEWALS_PER_LEASE / 2,
    )
    for (const entry of due) entry.dueAt = now + entry.leaseMs / RENEWALS_PER_LEASE
    try {
      this.#session ??= await openSession(this.#pool, 'renewal', this.#options)
      const store = { session: this.#session, tables: this.#tables }
      const renewals = await renewLeases(
        store,
        due.map(({ hold, leaseMs }) => ({ ...hold, leaseMs })),
      )
      const lost = new Set(
        renewals.filter((renewal) => renewal.result === 'lost').map((renewal) => renewal.holder),
      )
      for (const entry of due) {
        if (lost.has(entry.hold.holder)) this.#lose(entry)
      }
    } catch (error) {
      announce('pawl:warning', () => ({ message: 'leases could not be renewed; it is tried again', error }))
      // The next round tries on a new connection; if none succeeds, the lease runs out, which is what leases are for.
      this.#session?.release()
      this.#session = null
    }
  }

  #lose(entry: KeptLease): void {
    entry.lost = true
    this.#entries.delete(entry)
    entry.onLost()
  }
}
