import type { JsonValue, StoredResponse } from '@pawl/core'
import type {
  CallMade,
  Commit,
  Delivery,
  History,
  Leftovers,
  ProviderRequest,
  Row,
  ReturnedOutcome,
} from '../../packages/crash-kit/src/history.js'
import { insertOwn, remove, type RowChange, update } from './row-changes.js'
import type { OutcomeOf } from './sample-outcomes.js'

const LEASE_MS = 10_000
const RETENTION_MS = 86_400_000
const RUN_MS = 3_600_000
const BEGIN_MS = Date.UTC(2026, 2, 1, 12)

const textOf = (row: Row, column: string): string => row[column] as string

type Details = Partial<Omit<ReturnedOutcome, 'outcome'>>

/**
 * Writes a history by hand. Each method stands for a statement of the engine, or for a wrong one. `run` distinguishes runs, so that
 * each has ids and times of its own.
 */
export class HistoryBuilder {
  readonly #run: number
  readonly #commits: Commit[] = []
  readonly #lost: Commit[] = []
  readonly #calls: CallMade[] = []
  readonly #outcomes: ReturnedOutcome[] = []
  readonly #deliveries: Delivery[] = []
  readonly #requests: ProviderRequest[] = []
  #leftovers: Leftovers = { lostClients: [], openTransactions: [], unhandledRejections: [] }
  #completerRounds: number | null = 0
  #row: Row | null = null
  #nowMs: number
  #ids = 0
  #ticks = 0
  #seq = 0

  constructor(run = 1) {
    this.#run = run
    this.#nowMs = BEGIN_MS + run * RUN_MS
  }

  /** Returns a new id of this run. */
  id(): string {
    return `${String(this.#run).padStart(8, '0')}-0000-4000-8000-${String(++this.#ids).padStart(12, '0')}`
  }

  /** The provider key that calls and requests carry by default. */
  get providerKey(): string {
    return `pawl_key_of_run_${this.#run}`
  }

  /** The key's row as it is now. */
  get row(): Row {
    if (this.#row === null) throw new TypeError('there is no key')
    return this.#row
  }

  get keyId(): string {
    return textOf(this.row, 'id')
  }

  /** Returns a time of this run. */
  now(afterMs = 0): string {
    return new Date(this.#nowMs + afterMs).toISOString().replace('Z', '+00:00')
  }

  /** Adds a transaction. The changes may be anything. */
  commit(actor: string, ...changes: RowChange[]): this {
    this.#nowMs += 5
    const written = changes.map((change) => ({ ...change, seq: ++this.#seq, atMs: this.#nowMs }))
    this.#commits.push({ transaction: String(700 + this.#commits.length), actor, changes: written })
    return this
  }

  reserve(actor = 'client', patch: Row = {}): this {
    this.#row = {
      id: this.id(),
      scope: 'user 7',
      key: `key of run ${this.#run}`,
      pipeline: 'create-ride',
      version: 1,
      definition_hash: '0123456789abcdef',
      state: {},
      recovery_point: 'started',
      status: 'running',
      stuck_reason: null,
      fence: 1,
      holder: this.id(),
      lease_until: this.now(LEASE_MS),
      attempts: 1,
      effect_epoch: 0,
      trail: [],
      response_status: null,
      response_headers: null,
      response_body: null,
      expires_at: null,
      ...patch,
    }
    return this.commit(actor, insertOwn('idempotency_keys', this.#row))
  }

  /** Adds an UPDATE of the key's row, with whatever else its transaction wrote. */
  write(actor: string, patch: Row, ...changes: RowChange[]): this {
    const before = this.row
    this.#row = { ...before, ...patch }
    return this.commit(actor, ...changes, { ...update('idempotency_keys', before, patch), framework: true })
  }

  /** Moves the recovery point, even to one that is not the next. */
  advance(actor: string, point: string, ...changes: RowChange[]): this {
    return this.write(actor, this.#reached(point), ...changes)
  }

  /** Moves past a call, and records its effect. */
  settle(actor: string, point: string, ...changes: RowChange[]): this {
    const effect = insertOwn('effects', { key_id: this.keyId, phase: point })
    return this.advance(actor, point, ...changes, effect)
  }

  skip(actor: string, point: string): this {
    return this.write(actor, this.#reached(point, { s: true }))
  }

  finish(actor: string, response: StoredResponse, ...changes: RowChange[]): this {
    const patch = {
      ...this.#reached('finished'),
      status: 'finished',
      lease_until: null,
      response_status: response.status,
      response_headers: response.headers,
      response_body: `\\x${response.body.toString('hex')}`,
      expires_at: this.now(RETENTION_MS),
    }
    return this.write(actor, patch, ...changes)
  }

  takeOver(actor: string, patch: Row = {}): this {
    const attempts = Number(this.row['attempts']) + 1
    return this.write(actor, { ...this.#granted(), attempts, ...patch })
  }

  raise(actor: string): this {
    return this.write(
      actor,
      this.row['status'] === 'running' ? this.#granted() : { ...this.#granted(), lease_until: null },
    )
  }

  renew(actor: string): this {
    return this.write(actor, { lease_until: this.now(LEASE_MS) })
  }

  giveBack(actor: string, patch: Row = {}): this {
    return this.write(actor, { lease_until: null, ...patch })
  }

  markStuck(actor: string, reason: string): this {
    return this.write(actor, { status: 'stuck', stuck_reason: reason, lease_until: null })
  }

  /** Lets the lease run out, as the kit does. */
  expireLease(): this {
    return this.write('kit', { lease_until: this.now(-1) })
  }

  reap(actor = 'reaper', ...changes: RowChange[]): this {
    const before = this.row
    this.#row = null
    return this.commit(actor, ...changes, { ...remove('idempotency_keys', before), framework: true })
  }

  /** Lets a failover lose the last commits, and with them what they did to the key's row. */
  lose(count: number): this {
    const lost = this.#commits.splice(-count)
    this.#lost.push(...lost)
    const first = lost.flatMap(({ changes }) => changes).find(({ table }) => table === 'idempotency_keys')
    this.#row = first?.before ?? null
    return this
  }

  /** Lets the key's retention run out. */
  expire(): this {
    return this.write('kit', { expires_at: this.now(-1) })
  }

  /** Adds a person's intervention. */
  steer(patch: Row): this {
    return this.write(
      'operator',
      { ...this.#granted(), lease_until: null, ...patch },
      insertOwn('interventions', { id: this.id() }),
    )
  }

  call(actor: string, phase: string, made: Partial<CallMade> = {}): this {
    const kind = 'call'
    this.#calls.push({
      tick: ++this.#ticks,
      actor,
      execution: 1,
      phase,
      kind,
      idempotencyKey: this.providerKey,
      ...made,
    })
    return this
  }

  request(actor: string, phase: string, request: Partial<ProviderRequest> = {}): this {
    this.#requests.push({
      tick: ++this.#ticks,
      method: 'POST',
      path: '/charges',
      body: '{"amount":1800}',
      idempotencyKey: this.providerKey,
      executed: true,
      phase,
      actor,
      inTransaction: false,
      ...request,
    })
    return this
  }

  returnTo(actor: string, outcome: ReturnedOutcome['outcome'], details: Details = {}): this {
    const plain = { execution: 1, disturbed: false, otherRequest: false, row: this.#row }
    this.#outcomes.push({ tick: ++this.#ticks, actor, ...plain, ...details, outcome })
    return this
  }

  deliver(id: string, name: string): this {
    this.#deliveries.push({ tick: ++this.#ticks, id, name })
    return this
  }

  leave(leftovers: Partial<Leftovers>): this {
    this.#leftovers = { ...this.#leftovers, ...leftovers }
    return this
  }

  rounds(completerRounds: number | null): this {
    this.#completerRounds = completerRounds
    return this
  }

  completed(
    response: StoredResponse,
    type: 'completed' | 'replayed' = 'completed',
  ): ReturnedOutcome['outcome'] {
    return { type, keyId: this.keyId, response, expiresAt: new Date(this.#nowMs) }
  }

  retryLater(patch: Partial<OutcomeOf<'retry_later'>> = {}): ReturnedOutcome['outcome'] {
    const { keyId, row } = this
    const plain = { reason: 'transient_error', retryAfterMs: 500, error: null, response: null } as const
    return { type: 'retry_later', keyId, ...plain, recoveryPoint: textOf(row, 'recovery_point'), ...patch }
  }

  stuck(patch: Partial<OutcomeOf<'stuck'>> = {}): ReturnedOutcome['outcome'] {
    const { keyId, row } = this
    const plain = { reason: 'unknown_outcome', lastError: null } as const
    return { type: 'stuck', keyId, ...plain, recoveryPoint: textOf(row, 'recovery_point'), ...patch }
  }

  build(): History {
    return {
      commits: this.#commits,
      lost: this.#lost,
      calls: this.#calls,
      outcomes: this.#outcomes,
      deliveries: this.#deliveries,
      leftovers: this.#leftovers,
      requests: this.#requests,
      completerRounds: this.#completerRounds,
    }
  }

  #granted(): { fence: number; holder: string; lease_until: string | null } {
    return { fence: Number(this.row['fence']) + 1, holder: this.id(), lease_until: this.now(LEASE_MS) }
  }

  #reached(point: string, more: Row = {}): Row {
    const entry = { p: point, t: this.#nowMs, f: this.row['fence'] ?? null, ...more }
    const trail = this.row['trail'] as readonly JsonValue[]
    return {
      recovery_point: point,
      trail: [...trail, entry],
      attempts: 0,
      lease_until: this.now(LEASE_MS),
      effect_epoch: 0,
    }
  }
}
