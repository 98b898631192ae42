import { randomUUID } from 'node:crypto'
import type { Engine, EngineOptions, Outcome, Pipeline, StoredResponse } from '@pawl/core'
import { createProbedEngine, type Probe } from '@pawl/core/internal'
import pg from 'pg'
import { inject } from 'vitest'
import { engineThatDiesAt, positionNamer } from './crash.js'
import { Provider } from './provider.js'
import { createRideOf, type Database, type RideInput } from './rides.js'
import type { TestDatabase } from './test-database.js'

/** The part of a key's row that tests read. */
interface StoredKey {
  readonly id: string
  readonly status: string
  readonly recovery_point: string
  readonly fence: string
  readonly attempts: number
  readonly intent: unknown
  readonly trail: readonly { readonly p: string; readonly f: number }[]
}

/** One ride request, with its own scope on a database that it may share, and its own account at the provider. */
export class RideTrial {
  readonly database: TestDatabase
  readonly provider = new Provider(inject('providerUrl'))
  readonly scope = `rider-${randomUUID()}`
  readonly key = randomUUID()
  readonly pipeline: Pipeline<Database, RideInput>
  readonly #options: Partial<EngineOptions<Database>>

  constructor(
    database: TestDatabase,
    pipelineOf: (provider: Provider) => Pipeline<Database, RideInput> = createRideOf,
    options: Partial<EngineOptions<Database>> = {},
  ) {
    this.database = database
    this.#options = options
    this.pipeline = pipelineOf(this.provider)
  }

  options(
    pool: pg.Pool = this.database.pool(),
    more: Partial<EngineOptions<Database>> = {},
  ): EngineOptions<Database> {
    return { pool, pipelines: [this.pipeline], schema: this.database.schema, ...this.#options, ...more }
  }

  execute(engine: Engine<Database>): Promise<Outcome> {
    return engine.execute(this.pipeline, { scope: this.scope, key: this.key, input: { amount: 1_200 } })
  }

  /** Executes on an engine that reports every position that it passes. */
  async executeWatched(probe: Probe): Promise<Outcome> {
    const engine = createProbedEngine<Database>(this.options(), probe)
    const outcome = await this.execute(engine)
    await engine.close()
    return outcome
  }

  /** The names of all positions that the request passes, in order. */
  async positions(): Promise<string[]> {
    const name = positionNamer()
    const passed: string[] = []
    await this.executeWatched((position) => void passed.push(name(position)))
    return passed
  }

  /**
   * Executes on an engine that dies at a position, and waits until the server has noticed. Returns the outcome instead if the
   * request does not pass that position.
   */
  async dieAt(at: string): Promise<'died' | Outcome> {
    const { url: connectionString, businessSchema } = this.database
    const application_name = `doomed_${randomUUID()}`
    // This is not one of the database's pools: its clients are never given back, so it could not be ended.
    const pool = new pg.Pool({
      connectionString,
      options: `-c search_path=${businessSchema}`,
      application_name,
    })
    const { engine, died } = engineThatDiesAt(this.options(pool), at)
    const end = await Promise.race([died.then(() => 'died' as const), this.execute(engine)])
    if (end !== 'died') {
      await engine.close()
      await pool.end()
    }
    await this.database.backendsGone(application_name)
    return end
  }

  async row(): Promise<StoredKey | null> {
    const rows = await this.database.rows<StoredKey>(
      'SELECT * FROM pawl.idempotency_keys WHERE scope = $1 AND key = $2',
      [this.scope, this.key],
    )
    return rows[0] ?? null
  }

  async rides(): Promise<{ id: string; charge_id: string | null; key_id: string | null }[]> {
    return this.database.rows('SELECT * FROM rides WHERE rider = $1 ORDER BY id', [this.scope])
  }

  /**
   * Everything that the request left behind, here and at the provider, with every id replaced by what it is the id of. Two
   * rides are the same exactly when these are equal.
   */
  async traces(response: StoredResponse): Promise<unknown> {
    const row = await this.row()
    const rides = await this.rides()
    const ledger = await this.provider.ledger()
    const effects = await this.database.rows<{ provider_key: string }>(
      `SELECT key_id, scope, key, pipeline, version, phase, effect, provider_key, reference FROM pawl.effects WHERE scope = $1`,
      [this.scope],
    )
    const jobs = await this.database.rows(
      'SELECT name, payload, key_id, attempts, dead_at FROM pawl.staged_jobs WHERE key_id = $1',
      [row?.id],
    )
    const names: [string | null | undefined, string][] = [
      [rides[0]?.id, '<ride>'],
      [ledger[0]?.id, '<charge>'],
      [effects[0]?.provider_key, '<provider key>'],
      [row?.id, '<key id>'],
      [this.scope, '<scope>'],
      [this.key, '<key>'],
      [this.provider.account, '<account>'],
    ]
    const { status, recovery_point, intent } = row ?? {}
    const points = row?.trail.map(({ p }) => p)
    const left = { status, recovery_point, intent, points, rides, ledger, effects, jobs }
    const json = JSON.stringify({ ...left, response: { ...response, body: response.body.toString() } })
    return JSON.parse(
      names.reduce((text, [id, name]) => (id == null ? text : text.replaceAll(id, name)), json),
    )
  }
}
