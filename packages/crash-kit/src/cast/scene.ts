import { randomUUID } from 'node:crypto'
import type { EngineOptions, JsonValue, Outcome, Pipeline, ResumeOutcome } from '@pawl/core'
import type { KitDatabase } from '../database/kit-database.js'
import type { Passed } from '../database/pass-time.js'
import type { TimelineEntry } from '../finding/timeline.js'
import {
  KIT,
  type CallMade,
  type Commit,
  type Delivery,
  type PipelineShape,
  type Row,
  type Told,
  type Violation,
} from '../history.js'
import { KitError } from '../kit-error.js'
import type { ProviderControls } from '../provider/provider-controls.js'
import type { Children } from '../process/children.js'
import type { Pools } from './pools.js'

/** What all cases of one kit share. */
export interface Theatre {
  readonly database: KitDatabase
  readonly provider: ProviderControls | null
  readonly pools: Pools
  /** Called for each engine, so that what a pipeline keeps in its closure is not there after a crash. */
  readonly pipeline: () => Pipeline<never, never>
  readonly shape: PipelineShape
  readonly engine: Partial<EngineOptions<never>>
  readonly request: KitRequest
  /** Rejections of the process that nobody handled, as they come. */
  readonly rejections: unknown[]
  /** Where set, faults strike processes of their own. */
  readonly children: Children | null
}

/** The request that every case sends, under a key of its own. */
interface KitRequest {
  readonly scope: string
  readonly input: unknown
  readonly fingerprint?: JsonValue | Uint8Array
}

/** What passes beyond the lease in the first round; doubled in each. */
const FIRST_REST_MS = 100

/**
 * How long the lease and the back-off still last. Where the row was written by a server whose clock was ahead, each lasts for as
 * long as it was set for, and not until that moment here. A lease may have been renewed since, which writes nothing else.
 */
const LEASE_LEFT = `lease_until - CASE WHEN lease_until > updated_at THEN greatest(clock_timestamp(), updated_at)
                                       ELSE clock_timestamp() END`
const BACK_OFF_LEFT = 'run_after - greatest(clock_timestamp(), updated_at)'

/** User code that runs right now: what a request at the provider can belong to. */
export interface Window {
  readonly actor: string
  readonly execution: number
  readonly phase: string
  readonly kind: 'transaction' | 'call' | 'reconcile'
  readonly idempotencyKey: string | null
}

/** One case: one key, whoever acts on it, and all that is seen of them. */
export class Scene {
  readonly theatre: Theatre
  readonly key: string
  /** The mark in the database's history at which this case began. */
  readonly mark: number
  /** The key's row is read at every line of the timeline: actors have to stop for it. */
  readonly verbose: boolean
  readonly calls: CallMade[] = []
  readonly told: Told[] = []
  readonly deliveries: Delivery[] = []
  /** What was committed and then lost, in failovers. */
  readonly lost: Commit[] = []
  readonly timeline: TimelineEntry[] = []
  /** What was seen to be wrong while the case ran, besides what its history will show. */
  readonly violations: Violation[] = []
  /** The client went away: only the completer may recover the key. */
  clientIsGone = false
  /** Its retention was over: whoever sends it again sends a new request. */
  reaped = false
  /** How far the clock of the server is ahead of the first one's, in failovers. */
  clockAheadMs = 0
  readonly #windows = new Set<Window>()
  #ticks = 0
  #executions = 0

  private constructor(theatre: Theatre, mark: number, verbose: boolean, key: string) {
    this.theatre = theatre
    this.mark = mark
    this.key = key
    this.verbose = verbose
  }

  /** `verbose`: the key's row is read at every line of the timeline. */
  static async open(theatre: Theatre, verbose = false, key: string = randomUUID()): Promise<Scene> {
    const scene = new Scene(theatre, await theatre.database.mark(), verbose, key)
    theatre.pools.reset()
    theatre.provider?.reset()
    theatre.provider?.onRequest((request) => {
      const window = scene.#windowOf(request.idempotencyKey)
      scene.jot('provider', `got ${request.method} ${request.path}`)
      return {
        tick: scene.tick(),
        phase: window?.phase ?? null,
        actor: window?.actor ?? null,
        inTransaction: window?.kind === 'transaction',
      }
    })
    return scene
  }

  get scope(): string {
    return this.theatre.request.scope
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

  /** A phase's function has returned before something that it began. */
  notAwaited(actor: string, phase: string, what: string): void {
    const detail = `${what} in '${phase}' of ${actor} was not awaited: it was under way when the phase's function returned.`
    this.violations.push({
      rule: 'lint',
      title: 'every query of a phase is awaited',
      detail: detail.charAt(0).toUpperCase() + detail.slice(1),
      tick: this.tick(),
    })
  }

  /** The dead run no user code. */
  leaveAll(actor: string): void {
    for (const window of this.#windows) if (window.actor === actor) this.#windows.delete(window)
  }

  /** A line of the timeline, with the row as it is now. */
  async note(who: string, what: string): Promise<void> {
    const entry = this.jot(who, what)
    if (!this.verbose) return
    const row = await this.theatre.database.keyRow(this.scope, this.key)
    this.timeline[this.timeline.indexOf(entry)] = {
      ...entry,
      point: row === null ? null : textIn(row, 'recovery_point'),
      fence: row === null ? null : Number(row['fence']),
    }
  }

  /** The same where nobody can wait for the row. */
  jot(who: string, what: string): TimelineEntry {
    const entry = { tick: this.tick(), who, what, point: null, fence: null }
    this.timeline.push(entry)
    return entry
  }

  /** `lost`: what failovers have lost while it ran. */
  async tell(told: Omit<Told, 'tick' | 'row'>, lost: readonly Commit[] = []): Promise<void> {
    if (lost.some((commit) => commit.actor === told.actor && isLastWord(commit))) {
      await this.note(told.actor, `is told ${sayOutcome(told.outcome)}, of a commit that is lost`)
      return
    }
    const row = await this.theatre.database.keyRow(this.scope, this.key)
    this.told.push({ ...told, ...(lost.length > 0 && { failedOver: true }), tick: this.tick(), row })
    await this.note(told.actor, `is told ${sayOutcome(told.outcome)}`)
  }

  /** Undoes all that was committed, so that the next case finds what this one found. Sequences go on: ids are new. */
  async clear(): Promise<void> {
    await this.theatre.database.loseCommitsSince(this.mark)
  }

  /**
   * Takes the last commits back, as a failover to a server does that has not got them. What was told until now is not held
   * against what comes: acknowledged answers may change.
   */
  async loseCommits(depth: number | 'all'): Promise<void> {
    const { database } = this.theatre
    const commits = await database.commitsSince(this.mark)
    const byActors = commits.filter(({ actor }) => actor !== KIT)
    // Time that passed meanwhile is lost with them; it passes again before the next attempt.
    const first = depth === 'all' || depth >= byActors.length ? commits[0] : byActors.at(-depth)
    const lost = first === undefined ? [] : commits.slice(commits.indexOf(first))
    await database.loseTransactions(
      this.mark,
      lost.map(({ transaction }) => transaction),
    )
    this.lost.push(...lost)
    this.told.length = 0
  }

  /** Leases are over, and back-offs too: time has passed. */
  async expireLease(): Promise<void> {
    const passed = await this.theatre.database.expireLease(this.scope, this.key)
    // Whoever stands still in the middle of writing the row cannot be robbed of it: others pass it over.
    await this.note(
      KIT,
      passed === 'locked' ? 'the lease stays, since its row is locked' : 'the lease runs out',
    )
  }

  /**
   * Time passes until the key may be had again: its lease is over, and its back-off too. The completer lets keys whose
   * holders died rest for longer, of which the row says nothing: more passes in each `round`.
   */
  async passUntilDue(round: number): Promise<void> {
    const { database } = this.theatre
    const { rows } = await database.admin.query<{ ms: number | null }>(
      `SELECT ceil(extract(epoch FROM greatest(${LEASE_LEFT}, ${BACK_OFF_LEFT})) * 1000)::float8 AS ms
         FROM ${database.pawlSchema}.idempotency_keys WHERE scope = $1 AND key = $2`,
      [this.scope, this.key],
    )
    const ms = Math.max(0, rows[0]?.ms ?? 0) + FIRST_REST_MS * 2 ** round
    await this.passTime(ms, `${ms} ms pass, until the key is due`)
  }

  async passTime(ms: number, what: string): Promise<void> {
    checkPassed(await this.theatre.database.passTime(this.scope, this.key, ms), what)
    await this.note(KIT, what)
  }

  /** From here on another server answers, with all that was committed and a clock that is so much ahead, or behind. */
  async failOverTo(aheadMs: number, what: string): Promise<void> {
    this.clockAheadMs += aheadMs
    checkPassed(await this.theatre.database.changeServer(this.scope, this.key, aheadMs), what)
    await this.note('database', what)
  }

  #windowOf(idempotencyKey: string | null): Window | null {
    const open = [...this.#windows]
    const byKey = open.filter((window) => idempotencyKey !== null && window.idempotencyKey === idempotencyKey)
    return byKey.at(-1) ?? open.at(-1) ?? null
  }
}

function checkPassed(passed: Passed, what: string): void {
  if (passed !== 'locked') return
  throw new KitError('PAWL_KIT_LOCKED', `Time could not pass (${what}): somebody has the key's row locked.`)
}

function textIn(row: Row, column: string): string | null {
  const value = row[column]
  return typeof value === 'string' ? value : null
}

/** Whether it left the key to others: finished, stuck, or given back. What is told then is what was written there. */
function isLastWord({ changes }: Commit): boolean {
  return changes.some(
    ({ framework, table, after }) =>
      framework &&
      table === 'idempotency_keys' &&
      after !== null &&
      (after['status'] !== 'running' || after['lease_until'] === null),
  )
}

function sayOutcome(outcome: Outcome | ResumeOutcome): string {
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
