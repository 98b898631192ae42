import { randomUUID } from 'node:crypto'
import {
  createBackground,
  type Delivery,
  type Engine,
  type JobToDeliver,
  type RelayCounts,
  type RelayOptions,
  respond,
  retryLater,
  type Service,
  type Sink,
} from '@pawl/core'
import { createProbedEngine, type Probe } from '@pawl/core/internal'
import type pg from 'pg'
import { type Database, pipeline } from './rides.js'
import { gate } from './signals.js'
import type { TestDatabase } from './test-database.js'

/** A job to be staged. */
interface Job {
  readonly name?: string
  readonly payload?: number
  readonly runAfterMs?: number
}

/** A row of `staged_jobs`, with moments as their distance from now on the database's clock. */
export interface JobRow {
  readonly id: string
  readonly name: string
  readonly attempts: number
  readonly claim: string | null
  readonly is_claimed: boolean
  readonly is_dead: boolean
  readonly due_in_ms: number
  readonly last_error: string | null
}

/** Stages what its input lists, and rolls it back if `fail` is set. */
export const stageJobs = pipeline<{ jobs: Job[]; fail?: boolean }>({
  name: 'stage-jobs',
  version: 1,
}).finish(async ({ stage, input }) => {
  const ids: string[] = []
  for (const { name = 'job', payload = 0, runAfterMs = 0 } of input.jobs) {
    ids.push(await stage(name, payload, { runAfterMs }))
  }
  return input.fail === true ? retryLater() : respond(200, ids)
})

/** Options of the engine that a relay runs on. */
interface Beside {
  readonly pool?: pg.Pool
  readonly probe?: Probe
  readonly pipelining?: boolean
}

/** Engines, relays and jobs on one test's own database, because a relay takes every job that it finds. */
export class RelayTrial {
  readonly database: TestDatabase
  readonly #stops: (() => Promise<unknown>)[] = []

  constructor(database: TestDatabase) {
    this.database = database
  }

  engine({
    pool = this.database.pool(),
    probe = () => {},
    pipelining = true,
  }: Beside = {}): Engine<Database> {
    const options = { pool, pipelines: [stageJobs], schema: this.database.schema, pipelining }
    const engine = createProbedEngine<Database>(options, probe)
    this.#stops.push(() => engine.close({ timeoutMs: 0 }))
    return engine
  }

  /** A relay on its own engine, or on the given one. */
  relay(options: RelayOptions, beside: Beside | Engine<Database> = {}): Service<RelayCounts> {
    const engine = 'execute' in beside ? beside : this.engine(beside)
    const { relays } = createBackground({ engine, completer: false, reaper: false, relay: options })
    const [relay] = relays
    if (relay === undefined) throw new Error('no relay')
    this.#stops.unshift(() => relay.stop({ timeoutMs: 0 }))
    return relay
  }

  /** Stages jobs by a request. Returns their ids, and that of their key. */
  async stage(
    jobs: Job[],
    engine: Engine<Database> = this.engine(),
  ): Promise<{ ids: string[]; keyId: string }> {
    const request = { scope: 'tests', key: randomUUID() }
    const outcome = await engine.execute(stageJobs, { ...request, input: { jobs } })
    if (outcome.type !== 'completed') throw new Error(`the request came to ${outcome.type}`)
    const [key] = await this.database.rows<{ id: string }>(
      'SELECT id FROM pawl.idempotency_keys WHERE key = $1',
      [request.key],
    )
    return { ids: JSON.parse(outcome.response.body.toString()) as string[], keyId: key?.id ?? '' }
  }

  /** Writes `count` jobs straight into the table, each with its own key. */
  async insert(count: number, client: pg.Pool | pg.PoolClient = this.database.admin): Promise<string[]> {
    const { rows } = await client.query<{ id: string }>(
      `INSERT INTO ${this.database.schema}.staged_jobs (id, scope, seq, name, payload, key_id)
       SELECT gen_random_uuid(), 's', n, 'job', to_json(n), gen_random_uuid() FROM generate_series(1, $1) AS n RETURNING id`,
      [count],
    )
    return rows.map(({ id }) => id)
  }

  async rows(): Promise<JobRow[]> {
    return this.database.rows<JobRow>(
      `SELECT id, name, attempts, claim, claim_until IS NOT NULL AS is_claimed, dead_at IS NOT NULL AS is_dead,
              (extract(epoch FROM run_after - clock_timestamp()) * 1000)::float AS due_in_ms, last_error
         FROM pawl.staged_jobs ORDER BY seq`,
    )
  }

  /** Lets every claim run out on the database's clock, without waiting. */
  async expireClaims(): Promise<void> {
    await this.database.rows(
      `UPDATE pawl.staged_jobs SET claim_until = clock_timestamp() - interval '1 ms' WHERE claim_until IS NOT NULL`,
    )
  }

  /** Lets every back-off and every delay of jobs end. */
  async endDelays(): Promise<void> {
    await this.database.rows(
      'UPDATE pawl.staged_jobs SET run_after = clock_timestamp() WHERE run_after > clock_timestamp()',
    )
  }

  async end(): Promise<void> {
    for (const stop of this.#stops) await stop()
    await this.database.drop()
  }
}

/** A sink that keeps what it got, in the order of arrival. */
export class Inbox implements Sink {
  readonly got: JobToDeliver[] = []
  readonly #answer: (job: JobToDeliver) => Delivery | Promise<Delivery>
  #awaited: { readonly count: number; readonly open: () => void }[] = []

  constructor(answer: (job: JobToDeliver) => Delivery | Promise<Delivery> = () => DELIVERED) {
    this.#answer = answer
  }

  get ids(): string[] {
    return this.got.map(({ id }) => id)
  }

  get payloads(): unknown[] {
    return this.got.map(({ payload }) => payload)
  }

  /** Resolves when this many jobs have arrived in total. */
  async arrived(count: number): Promise<void> {
    if (this.got.length >= count) return
    const { opened, open } = gate()
    this.#awaited.push({ count, open })
    await opened
  }

  async deliver(jobs: readonly JobToDeliver[]): Promise<Delivery[]> {
    this.got.push(...jobs)
    for (const { count, open } of this.#awaited) if (this.got.length >= count) open()
    return Promise.all(jobs.map(async (job) => this.#answer(job)))
  }
}

export const DELIVERED: Delivery = { type: 'delivered' }
export const failed = (error: unknown = new Error('refused')): Delivery => ({ type: 'failed', error })

/** The counts of a round: zero, except for what is given. */
export function counts(did: Partial<RelayCounts> = {}): RelayCounts {
  return { claimed: 0, delivered: 0, failed: 0, dead: 0, lost: 0, ...did }
}
