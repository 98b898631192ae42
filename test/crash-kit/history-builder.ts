import type { JsonValue, StoredResponse } from '@pawl/core'
import type {
  CallMade,
  Change,
  Commit,
  Delivery,
  History,
  Leftovers,
  PipelineShape,
  ProviderRequest,
  Row,
  Told,
} from '../../packages/crash-kit/src/history.js'

/** The rides pipeline of the article: a ride, its charge, and a receipt that is staged at the end. */
export const RIDES: PipelineShape = {
  name: 'create-ride',
  version: 1,
  points: ['started', 'ride_created', 'charge_created', 'finished'],
  maxAttempts: 10,
  foreign: [{ phase: 'charge_created', guarantee: 'keyed' }],
}

/** The same, of another guarantee. */
export function ridesWith(guarantee: PipelineShape['foreign'][number]['guarantee']): PipelineShape {
  return { ...RIDES, foreign: [{ phase: 'charge_created', guarantee }] }
}

const LEASE_MS = 10_000
const RETENTION_MS = 86_400_000
const RUN_MS = 3_600_000
const BEGIN_MS = Date.UTC(2026, 2, 1, 12)

type Wanted = Pick<Change, 'table' | 'framework' | 'op' | 'before' | 'after'>

export const insert = (table: string, after: Row): Wanted => ({
  table,
  framework: false,
  op: 'INSERT',
  before: null,
  after,
})
export const update = (table: string, before: Row, patch: Row): Wanted => ({
  table,
  framework: false,
  op: 'UPDATE',
  before,
  after: { ...before, ...patch },
})
export const remove = (table: string, before: Row): Wanted => ({
  table,
  framework: false,
  op: 'DELETE',
  before,
  after: null,
})
/** A row of the framework's that is inserted. */
export const note = (table: string, after: Row): Wanted => ({ ...insert(table, after), framework: true })

const textOf = (row: Row, column: string): string => row[column] as string

type OutcomeOf<Type extends Told['outcome']['type']> = Extract<Told['outcome'], { type: Type }>
type Details = Partial<Omit<Told, 'outcome'>>

/**
 * Writes a history by hand: each method is a statement of the engine, or a wrong one. `run` tells runs apart, so that each
 * has ids and times of its own.
 */
export class HistoryBuilder {
  readonly #run: number
  readonly #commits: Commit[] = []
  readonly #lost: Commit[] = []
  readonly #calls: CallMade[] = []
  readonly #told: Told[] = []
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

  /** An id of this run. */
  id(): string {
    return `${String(this.#run).padStart(8, '0')}-0000-4000-8000-${String(++this.#ids).padStart(12, '0')}`
  }

  /** What the provider is sent, unless told otherwise. */
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

  /** A moment of this run. */
  now(afterMs = 0): string {
    return new Date(this.#nowMs + afterMs).toISOString().replace('Z', '+00:00')
  }

  /** A transaction. The changes may be anything. */
  commit(actor: string, ...changes: Wanted[]): this {
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
    return this.commit(actor, note('idempotency_keys', this.#row))
  }

  /** An UPDATE of the key's row, with whatever else its transaction wrote. */
  write(actor: string, patch: Row, ...changes: Wanted[]): this {
    const before = this.row
    this.#row = { ...before, ...patch }
    return this.commit(actor, ...changes, { ...update('idempotency_keys', before, patch), framework: true })
  }

  /** Also of a point that is not the next one. */
  advance(actor: string, point: string, ...changes: Wanted[]): this {
    return this.write(actor, this.#reached(point), ...changes)
  }

  skip(actor: string, point: string): this {
    return this.write(actor, this.#reached(point, { s: true }))
  }

  finish(actor: string, response: StoredResponse, ...changes: Wanted[]): this {
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

  /** The kit lets the lease run out. */
  expireLease(): this {
    return this.write('kit', { lease_until: this.now(-1) })
  }

  reap(actor = 'reaper', ...changes: Wanted[]): this {
    const before = this.row
    this.#row = null
    return this.commit(actor, ...changes, { ...remove('idempotency_keys', before), framework: true })
  }

  /** A failover loses the last commits, and with them what they made of the key's row. */
  lose(count: number): this {
    const lost = this.#commits.splice(-count)
    this.#lost.push(...lost)
    const first = lost.flatMap(({ changes }) => changes).find(({ table }) => table === 'idempotency_keys')
    this.#row = first?.before ?? null
    return this
  }

  /** The key's retention is over. */
  expire(): this {
    return this.write('kit', { expires_at: this.now(-1) })
  }

  /** A person steps in. */
  steer(patch: Row): this {
    return this.write(
      'operator',
      { ...this.#granted(), lease_until: null, ...patch },
      note('interventions', { id: this.id() }),
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

  tell(actor: string, outcome: Told['outcome'], details: Details = {}): this {
    const plain = { execution: 1, disturbed: false, impostor: false, row: this.#row }
    this.#told.push({ tick: ++this.#ticks, actor, ...plain, ...details, outcome })
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

  completed(response: StoredResponse, type: 'completed' | 'replayed' = 'completed'): Told['outcome'] {
    return { type, keyId: this.keyId, response, expiresAt: new Date(this.#nowMs) }
  }

  retryLater(patch: Partial<OutcomeOf<'retry_later'>> = {}): Told['outcome'] {
    const { keyId, row } = this
    const plain = { reason: 'transient_error', retryAfterMs: 500, error: null, response: null } as const
    return { type: 'retry_later', keyId, ...plain, recoveryPoint: textOf(row, 'recovery_point'), ...patch }
  }

  stuck(patch: Partial<OutcomeOf<'stuck'>> = {}): Told['outcome'] {
    const { keyId, row } = this
    const plain = { reason: 'unknown_outcome', lastError: null } as const
    return { type: 'stuck', keyId, ...plain, recoveryPoint: textOf(row, 'recovery_point'), ...patch }
  }

  build(): History {
    return {
      commits: this.#commits,
      lost: this.#lost,
      calls: this.#calls,
      told: this.#told,
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

export const MISMATCH: OutcomeOf<'mismatch'> = { type: 'mismatch', differs: 'request' }
export const FENCED_OFF: OutcomeOf<'in_flight'> = {
  type: 'in_flight',
  retryAfterMs: 1_000,
  leaseLeftMs: 9_000,
  fencedOff: true,
}
export const IN_FLIGHT: OutcomeOf<'in_flight'> = { ...FENCED_OFF, fencedOff: false }
export const REFUSED: OutcomeOf<'refused'> = {
  type: 'refused',
  pipeline: 'create-ride',
  version: 1,
  detail: 'version 1 is not registered here',
}
export const UNAVAILABLE: OutcomeOf<'unavailable'> = {
  type: 'unavailable',
  error: new Error('no connection'),
}

/** A response as the engine stores and tells it. */
export function json(status: number, body: JsonValue, headers: Record<string, string> = {}): StoredResponse {
  const all = { 'content-type': 'application/json', ...headers }
  return { status, headers: all, body: Buffer.from(JSON.stringify(body)) }
}

/** What a ride's phases write and answer, each in one run. */
export class Ride {
  readonly story: HistoryBuilder
  readonly id: string
  readonly chargeId: string
  readonly jobId: string

  constructor(story: HistoryBuilder) {
    this.story = story
    this.id = story.id()
    this.chargeId = `ch_${story.id()}`
    this.jobId = story.id()
  }

  /** As `ride_created` inserts it. */
  get row(): Row {
    const { id, story } = this
    return { id, key_id: story.keyId, status: 'new', charge_id: null, created_at: story.now() }
  }

  get response(): StoredResponse {
    const { id, chargeId } = this
    return json(201, { id, charge: chargeId }, { location: `/rides/${id}` })
  }

  /** What the provider is sent. */
  get body(): string {
    return JSON.stringify({ amount: 1800, ride: this.id })
  }
}

/** Reserved, and its first phase committed. */
export function begun(run = 1): { story: HistoryBuilder; ride: Ride; row: Row } {
  const story = new HistoryBuilder(run)
  const ride = new Ride(story)
  story.reserve('client')
  const { row } = ride
  story.advance('client', 'ride_created', insert('rides', row))
  return { story, ride, row }
}

/** Settles the charge and finishes, by one actor. */
export function ended(story: HistoryBuilder, ride: Ride, row: Row, actor: string): HistoryBuilder {
  const charge = { charge_id: ride.chargeId, status: 'charged' }
  const key = { key_id: story.keyId, scope: 'user 7', key: story.row['key'] ?? null }
  const effect = { phase: 'charge_created', effect: 'charge_created', provider_key: story.providerKey }
  story.advance(
    actor,
    'charge_created',
    update('rides', row, charge),
    note('effects', { id: story.id(), ...key, ...effect, reference: ride.chargeId }),
  )
  const receipt = { id: ride.jobId, name: 'send_receipt', payload: { ride: ride.id }, key_id: story.keyId }
  return story.finish(actor, ride.response, note('staged_jobs', receipt))
}

/** What follows in every case: a client comes back, another sends something else, the relay runs. */
export function aftermath(story: HistoryBuilder, ride: Ride): HistoryBuilder {
  const receipt = { id: ride.jobId, name: 'send_receipt', payload: { ride: ride.id }, key_id: story.keyId }
  return story
    .tell('late client', story.completed(ride.response, 'replayed'), { execution: 8 })
    .tell('impostor', MISMATCH, { execution: 9, impostor: true })
    .deliver(ride.jobId, 'send_receipt')
    .commit('relay', { ...note('staged_jobs', receipt), op: 'DELETE', before: receipt, after: null })
}

/** From the request to its response, without a fault. */
export function cleanRide(run = 1): HistoryBuilder {
  const { story, ride, row } = begun(run)
  story.call('client', 'charge_created').request('client', 'charge_created', { body: ride.body })
  ended(story, ride, row, 'client').tell('client', story.completed(ride.response))
  return aftermath(story, ride)
}

/** The client dies once the provider has executed; a retry takes over, calls again and ends it. */
export function crashedRide(run = 3): HistoryBuilder {
  const { story, ride, row } = begun(run)
  story.call('client', 'charge_created').request('client', 'charge_created', { body: ride.body })
  story.expireLease().takeOver('retry')
  story.call('retry', 'charge_created', { execution: 2 })
  story.request('retry', 'charge_created', { executed: false, body: ride.body })
  ended(story, ride, row, 'retry').tell('retry', story.completed(ride.response), { execution: 2 })
  return aftermath(story, ride)
}
