import type { Pool } from 'pg'
import { announce } from '../announce/announce.js'
import { openSession } from '../driver/open-session.js'
import { sqlStateOf } from '../driver/postgres-error.js'
import type { Session, SessionOptions } from '../driver/session.js'
import {
  MIN_GROUP_RENEWAL_MS,
  MIN_RENEWAL_DEADLINE_MS,
  RENEWAL_WAIT_MS,
  RENEWALS_PER_LEASE,
} from '../limits.js'
import type { Hold } from '../storage/keys/hold.js'
import { renewLeases } from '../storage/keys/renew-leases.js'
import { groupByShard } from '../storage/schema/group-by-shard.js'
import type { Tables } from '../storage/tables.js'
import { settledWithin } from '../settled-within.js'
import { FencedOff } from './fenced-off.js'

const NONE: ReadonlySet<KeptLease> = new Set()

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

  /** Ends the renewals, after waiting for one that is under way: a late renewal would disturb the transaction to come. */
  async stop(): Promise<void> {
    await this.#keeper.stopKeeping(this)
  }

  /** The same for a holder that goes on: throws if it is no longer the holder. */
  async end(): Promise<void> {
    await this.stop()
    if (this.lost) throw new FencedOff()
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
  /** When the timer fires, on the monotonic clock; Infinity while there is none. */
  #wakesAt = Infinity
  #round: Promise<void> | null = null
  /** The leases whose renewal has been sent and not answered yet. */
  #underWay: ReadonlySet<KeptLease> = NONE
  #session: Session | null = null
  /** Scopes whose server did not renew their leases last time. */
  readonly #sick = new Set<string>()
  #halted = false

  constructor(pool: Pool, tables: Tables, options: SessionOptions) {
    this.#pool = pool
    this.#tables = tables
    this.#options = options
  }

  /** `leasedAt`: when the lease began, on the monotonic clock. Renewals are due by its age, not the call's. */
  keep(hold: Hold, leaseMs: number, leasedAt: number, onLost: () => void): KeptLease {
    const lease = new KeptLease(this, hold, leaseMs, leasedAt, onLost)
    this.#entries.add(lease)
    if (lease.dueAt < this.#wakesAt) this.#schedule()
    return lease
  }

  /** Resolves once no renewal of this lease is under way; a renewal that hangs is given up. */
  async stopKeeping(lease: KeptLease): Promise<void> {
    this.#entries.delete(lease)
    if (this.#underWay.has(lease)) await this.#awaitRenewal()
    // Otherwise the timer is early at most, and looking at all entries whenever a call ends is not worth it.
    if (this.#entries.size === 0) this.#schedule()
  }

  async #awaitRenewal(): Promise<void> {
    const session = this.#session
    if (this.#round === null || (await settledWithin(RENEWAL_WAIT_MS, new Set([this.#round])))) return
    // Others may have given the session up in the meantime, and the lease may have been renewed on another.
    if (session === null || this.#session !== session) return
    this.#session = null
    this.#underWay = NONE
    const message = 'a renewal of leases hangs; its connection is discarded, and the renewal is tried again'
    announce('pawl:warning', () => ({ message, error: null }))
    session.giveUp('A renewal hangs')
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
    // After a halt as well: a connection may have been opened in the meantime, and would be left behind.
    if (this.#entries.size === 0 || this.#halted) {
      this.#sick.clear()
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
    // The lease that it was set for may have ended in the meantime. Timers fire up to a millisecond early.
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
    // Leases that would be due within half a period go along: fewer, fuller statements.
    const due = [...this.#entries].filter(
      (entry) => entry.dueAt <= now + entry.leaseMs / RENEWALS_PER_LEASE / 2,
    )
    for (const entry of due) entry.dueAt = now + entry.leaseMs / RENEWALS_PER_LEASE
    let session: Session | null = null
    try {
      session = this.#session ??= await openSession(this.#pool, 'renewal', this.#options)
      // Some calls may have ended while it was being opened.
      await this.#renew(
        session,
        due.filter((entry) => this.#entries.has(entry)),
      )
    } catch (error) {
      const isGivenUp = session !== null && this.#session !== session
      if (!isGivenUp) {
        announce('pawl:warning', () => ({
          message: 'leases could not be renewed; the renewal is tried again',
          error,
        }))
      }
      // The next round tries on a new connection; if none succeeds, the lease runs out, which is what leases are for.
      session?.release()
      if (this.#session === session) this.#session = null
    } finally {
      this.#underWay = NONE
    }
  }

  async #renew(session: Session, due: readonly KeptLease[]): Promise<void> {
    if (due.length === 0) return
    const untilNextMs = Math.min(...due.map(({ leaseMs }) => leaseMs)) / RENEWALS_PER_LEASE
    // Give up in time for another try, which a lease has room for.
    const deadlineMs = Math.max(untilNextMs, MIN_RENEWAL_DEADLINE_MS)
    session.setDeadline(Math.min(deadlineMs, this.#options.statementDeadlineMs))
    this.#underWay = new Set(due)
    const store = { session, tables: this.#tables }
    const groups = await groupByShard(
      store,
      due.map(({ hold, leaseMs }) => ({ ...hold, leaseMs })),
    )
    const lost = new Set<string>()
    let failure: { readonly error: unknown } | null = null
    const isSick = (group: readonly Hold[]): boolean => group.some(({ scope }) => this.#sick.has(scope))
    const endsAt = performance.now() + untilNextMs
    // All of them have their turn in the round, however many stand still.
    if (groups.length > 1) session.setDeadline(Math.max(deadlineMs / groups.length, MIN_GROUP_RENEWAL_MS))
    for (const group of groups.toSorted((a, b) => Number(isSick(a)) - Number(isSick(b)))) {
      // The next round is due, and begins with those that this one did not come to.
      if (performance.now() > endsAt) {
        this.#hurry(due, group)
        continue
      }
      try {
        const renewals = await renewLeases(store, group)
        for (const { holder, result } of renewals) if (result === 'lost') lost.add(holder)
        for (const { scope } of group) this.#sick.delete(scope)
      } catch (error) {
        // One server that is away must not cost the others' leases: from now on it comes last.
        if (groups.length === 1 || sqlStateOf(error) === null) throw error
        for (const { scope } of group) this.#sick.add(scope)
        failure = { error }
      }
    }
    for (const entry of due) {
      if (lost.has(entry.hold.holder)) this.#lose(entry)
    }
    if (failure !== null) throw failure.error
  }

  #hurry(due: readonly KeptLease[], group: readonly Hold[]): void {
    const holders = new Set(group.map(({ holder }) => holder))
    for (const entry of due) if (holders.has(entry.hold.holder)) entry.dueAt = performance.now()
  }

  #lose(entry: KeptLease): void {
    entry.lost = true
    this.#entries.delete(entry)
    entry.onLost()
  }
}
