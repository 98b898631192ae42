import { randomUUID } from 'node:crypto'
import type { Outcome, ResumeOutcome } from '@pawl/core'
import type { Passed } from '../database/pass-time.js'
import {
  KIT,
  type CallMade,
  type Commit,
  type Delivery,
  type Row,
  type ReturnedOutcome,
  type TimelineEntry,
  type Violation,
} from '../history.js'
import { KitError } from '../kit-error.js'
import { RETIREMENT_MS } from '../limits.js'
import type { Environment } from './environment.js'

/** How much time passes beyond the lease in the first round. It doubles in each round. */
const FIRST_REST_MS = 100

/**
 * How long the lease and the back-off still last. If the row was written by a server whose clock was ahead, each lasts for as long
 * as it was set for, and not until that time on this clock. A lease may have been renewed since, which changes nothing else.
 */
const LEASE_LEFT = `lease_until - CASE WHEN lease_until > updated_at THEN greatest(clock_timestamp(), updated_at)
                                       ELSE clock_timestamp() END`
const BACK_OFF_LEFT = 'run_after - greatest(clock_timestamp(), updated_at)'

/** User code that is running: what a request to the provider can belong to. */
export interface Window {
  readonly actor: string
  readonly execution: number
  readonly phase: string
  readonly kind: 'transaction' | 'call' | 'reconcile'
  readonly idempotencyKey: string | null
}

/** One run of a case or of a race: one key, the actors that act on it, and everything that is observed. */
export class Trial {
  readonly environment: Environment
  readonly key: string
  /** The mark in the database's history at which this trial began. */
  readonly mark: number
  /** Whether the key's row is read for every line of the timeline. Actors have to stop for that. */
  readonly verbose: boolean
  readonly calls: CallMade[] = []
  readonly outcomes: ReturnedOutcome[] = []
  readonly deliveries: Delivery[] = []
  /** What was committed and then lost in failovers. */
  readonly lost: Commit[] = []
  readonly timeline: TimelineEntry[] = []
  /** Violations that were seen during the trial, besides those that its history will show. */
  readonly violations: Violation[] = []
  /** The client went away, so only the completer may recover the key. */
  clientIsGone = false
  /** The key's retention was over. Whoever sends the request again is refused, or sends a new one if nothing is known of its effects. */
  reaped = false
  /** How far failovers have put the server's clock ahead of the first one's. */
  clockAheadMs = 0
  readonly #windows = new Set<Window>()
  #ticks = 0
  #executions = 0

  private constructor(environment: Environment, mark: number, verbose: boolean, key: string) {
    this.environment = environment
    this.mark = mark
    this.key = key
    this.verbose = verbose
  }

  /** With `verbose`, the key's row is read for every line of the timeline. */
  static async open(environment: Environment, verbose = false, key: string = randomUUID()): Promise<Trial> {
    const trial = new Trial(environment, await environment.database.mark(), verbose, key)
    environment.pools.reset()
    environment.provider?.reset()
    environment.provider?.onRequest((request) => {
      const window = trial.#windowOf(request.idempotencyKey)
      trial.recordNow('provider', `got ${request.method} ${request.path}`)
      return {
        tick: trial.tick(),
        phase: window?.phase ?? null,
        actor: window?.actor ?? null,
        inTransaction: window?.kind === 'transaction',
      }
    })
    return trial
  }

  get scope(): string {
    return this.environment.request.scope
  }

  tick(): number {
    return ++this.#ticks
  }

  nextExecution(): number {
    return ++this.#executions
  }

  enter(window: Window): () => void {
    this.#windows.add(window)
    return () => this.#windows.delete(window)
  }

  /** Reports that a phase's function has returned before something that it began. */
  notAwaited(actor: string, phase: string, what: string): void {
    const detail = `${what} in '${phase}' of ${actor} was not awaited: it was under way when the phase's function returned.`
    this.violations.push({
      rule: 'lint',
      title: 'every query of a phase is awaited',
      detail: detail.charAt(0).toUpperCase() + detail.slice(1),
      tick: this.tick(),
    })
  }

  /** A dead actor runs no user code. */
  closeWindows(actor: string): void {
    for (const window of this.#windows) if (window.actor === actor) this.#windows.delete(window)
  }

  /** Adds a line to the timeline, with the row as it is now. */
  async record(who: string, what: string): Promise<void> {
    const entry = this.recordNow(who, what)
    if (!this.verbose) return
    const row = await this.environment.database.keyRow(this.scope, this.key)
    this.timeline[this.timeline.indexOf(entry)] = {
      ...entry,
      point: row === null ? null : textIn(row, 'recovery_point'),
      fence: row === null ? null : Number(row['fence']),
    }
  }

  /** Does the same where nobody can wait for the row. */
  recordNow(who: string, what: string): TimelineEntry {
    const entry = { tick: this.tick(), who, what, point: null, fence: null }
    this.timeline.push(entry)
    return entry
  }

  /** Records what an execution returned. `lost` is what failovers lost while it ran. */
  async recordOutcome(
    returned: Omit<ReturnedOutcome, 'tick' | 'row'>,
    lost: readonly Commit[] = [],
  ): Promise<void> {
    if (lost.some((commit) => commit.actor === returned.actor && endsTheHold(commit))) {
      await this.record(returned.actor, `gets ${describeOutcome(returned.outcome)}, of a commit that is lost`)
      return
    }
    const row = await this.environment.database.keyRow(this.scope, this.key)
    this.outcomes.push({ ...returned, ...(lost.length > 0 && { failedOver: true }), tick: this.tick(), row })
    await this.record(returned.actor, `gets ${describeOutcome(returned.outcome)}`)
  }

  /** Undoes everything that was committed, so that the next trial finds what this one found. Sequences go on, so ids are new. */
  async clear(): Promise<void> {
    await this.environment.database.loseCommitsSince(this.mark)
  }

  /**
   * Takes back the last commits, like a failover to a server that does not have them. Outcomes so far are not compared with later
   * ones, because acknowledged answers may change.
   */
  async loseCommits(depth: number | 'all'): Promise<void> {
    const { database } = this.environment
    const commits = await database.commitsSince(this.mark)
    const byActors = commits.filter(({ actor }) => actor !== KIT)
    // Time that passed in between is lost with them. It passes again before the next attempt.
    const first = depth === 'all' || depth >= byActors.length ? commits[0] : byActors.at(-depth)
    const lost = first === undefined ? [] : commits.slice(commits.indexOf(first))
    await database.loseTransactions(
      this.mark,
      lost.map(({ transaction }) => transaction),
    )
    this.lost.push(...lost)
    this.outcomes.length = 0
  }

  /** Ends the lease and the back-off, as if time had passed. */
  async expireLease(): Promise<void> {
    const passed = await this.environment.database.expireLease(this.scope, this.key)
    // A row that a stopped actor is writing cannot be changed. Others pass it over.
    await this.record(
      KIT,
      passed === 'locked' ? 'the lease stays, since its row is locked' : 'the lease runs out',
    )
  }

  /**
   * Lets time pass until the key can be taken over, because its lease and its back-off are over. The completer lets keys whose
   * holders died rest for longer, which the row does not show. So more time passes in each `round`.
   */
  async passUntilDue(round: number): Promise<void> {
    const { database } = this.environment
    const { rows } = await database.admin.query<{ ms: number | null }>(
      `SELECT ceil(extract(epoch FROM greatest(${LEASE_LEFT}, ${BACK_OFF_LEFT})) * 1000)::float8 AS ms
         FROM ${database.pawlSchema}.idempotency_keys WHERE scope = $1 AND key = $2`,
      [this.scope, this.key],
    )
    const ms = Math.max(0, rows[0]?.ms ?? 0) + FIRST_REST_MS * 2 ** round
    await this.passTime(ms, `${ms} ms pass, until the key is due`)
  }

  async passTime(ms: number, what: string): Promise<void> {
    checkPassed(await this.environment.database.passTime(this.scope, this.key, ms), what)
    await this.record(KIT, what)
  }

  /** Lets the retention of the finished key be over, so that the reaper may delete it. The provider has forgotten its key as well. */
  async retire(): Promise<void> {
    this.reaped = true
    this.environment.provider?.forgetKeys()
    await this.passTime(RETIREMENT_MS, 'the retention is over')
  }

  /** Lets time pass until a client that was sent away because of a limit may come back. Without one, nothing happens. */
  async passUntilAllowed(): Promise<void> {
    const last = this.outcomes.at(-1)?.outcome
    if (last?.type !== 'limited') return
    const { retryAfterMs } = last
    await this.passTime(retryAfterMs, `${retryAfterMs} ms pass, until the scope may have another key`)
  }

  /** From here on another server answers. It has everything that was committed, and a clock that is ahead by so much, or behind. */
  async failOverTo(aheadMs: number, what: string): Promise<void> {
    this.clockAheadMs += aheadMs
    checkPassed(await this.environment.database.changeServer(this.scope, this.key, aheadMs), what)
    await this.record('database', what)
  }

  #windowOf(idempotencyKey: string | null): Window | null {
    const open = [...this.#windows]
    const byKey = open.filter((window) => idempotencyKey !== null && window.idempotencyKey === idempotencyKey)
    return byKey.at(-1) ?? open.at(-1) ?? null
  }
}

function checkPassed(passed: Passed, what: string): void {
  if (passed !== 'locked') return
  throw new KitError('PAWL_KIT_LOCKED', `Time could not pass (${what}): somebody has locked the key's row.`)
}

function textIn(row: Row, column: string): string | null {
  const value = row[column]
  return typeof value === 'string' ? value : null
}

/** Returns whether a commit ended the hold: the key is finished, stuck, or given back. The outcome is what it wrote. */
function endsTheHold({ changes }: Commit): boolean {
  return changes.some(
    ({ framework, table, after }) =>
      framework &&
      table === 'idempotency_keys' &&
      after !== null &&
      (after['status'] !== 'running' || after['lease_until'] === null),
  )
}

function describeOutcome(outcome: Outcome | ResumeOutcome): string {
  switch (outcome.type) {
    case 'completed':
    case 'replayed':
      return `${outcome.type}, ${outcome.response.status}`
    case 'retry_later':
      return `retry_later at ${outcome.recoveryPoint}: ${outcome.reason}${because(outcome.error)}`
    case 'stuck':
      return `stuck: ${outcome.reason}`
    case 'in_flight':
      return outcome.fencedOff ? 'in_flight: it was fenced off' : 'in_flight'
    case 'mismatch':
      return `mismatch: another ${outcome.differs}`
    case 'limited':
      return `limited: ${outcome.limit}`
    case 'expired':
      return 'expired: an effect of it is on record'
    case 'refused':
      return `refused: ${outcome.detail}`
    case 'unavailable':
      return `unavailable${because(outcome.error)}`
    case 'gone':
      return 'gone'
  }
}

function because(error: unknown): string {
  return error instanceof Error ? ` (${error.message.split('\n')[0]})` : ''
}
