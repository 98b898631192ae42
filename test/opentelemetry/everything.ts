import { randomUUID } from 'node:crypto'
import {
  createBackground,
  deliverEach,
  type Engine,
  type EngineOptions,
  type Pipeline,
  respond,
} from '@pawl/core'
import { instrument, type ReadingSource } from '@pawl/opentelemetry'
import { sql } from 'kysely'
import pg from 'pg'
import { inject, onTestFinished } from 'vitest'
import { engineThatFreezesAt } from '../support/crash.js'
import { heard } from '../support/heard.js'
import { PostgresProxy } from '../support/postgres-proxy.js'
import { Provider } from '../support/provider.js'
import { createEngine, createRideOf, type Database, pipeline, type RideInput } from '../support/rides.js'
import type { TestDatabase } from '../support/test-database.js'
import type { Exported } from './exported.js'

type Ride = Pipeline<Database, RideInput>

const call = () => Promise.reject(new Error('who knows'))

/** Runs requests that meet one fault each, on instrumented engines. */
export class EverythingTrial {
  readonly database: TestDatabase
  readonly exported: Exported
  readonly provider = new Provider(inject('providerUrl'))
  readonly ride: Ride

  constructor(database: TestDatabase, exported: Exported) {
    this.database = database
    this.exported = exported
    this.ride = createRideOf(this.provider)
  }

  options(
    pipelines: readonly Ride[] = [this.ride],
    more: Partial<EngineOptions<Database>> = {},
  ): EngineOptions<Database> {
    return { pool: this.database.pool(), pipelines, schema: this.database.schema, ...more }
  }

  /** The end of the test closes it. */
  engine(options: EngineOptions<Database> = this.options(), operator?: ReadingSource): Engine<Database> {
    return this.instrumented(createEngine(options), operator)
  }

  instrumented(engine: Engine<Database>, operator?: ReadingSource): Engine<Database> {
    const { stop } = instrument({
      engine,
      meterProvider: this.exported.provider,
      duplicatesEveryMs: 100,
      readEveryMs: 1_000,
      ...(operator && { operator }),
    })
    onTestFinished(async () => {
      stop()
      await engine.close()
    })
    return engine
  }

  execute(engine: Engine<Database>, ride: Ride = this.ride, key: string = randomUUID(), amount = 1) {
    return engine.execute(ride, { scope: 'tenant', key, input: { amount } })
  }

  /** All of them, one after the other. */
  async everything(engine: Engine<Database>): Promise<void> {
    await this.duplicates(engine)
    await this.retry(engine)
    await this.conflict()
    await this.lostAnswer()
    await this.unknownOutcomes()
    await this.zombie(engine)
    await this.away()
    this.warning()
    await this.limited()
    await this.rounds(engine)
  }

  /** A scope that has as many requests as it may have. */
  async limited(): Promise<void> {
    const limits = { newKeys: { max: 1, perMs: 3_600_000 } }
    const engine = this.engine(this.options([this.ride], { limits }))
    for (let times = 0; times < 2; times++) await this.execute(engine)
  }

  /** Completed, replayed, in flight and another request under the same key. */
  async duplicates(engine: Engine<Database>): Promise<void> {
    const key = randomUUID()
    await this.provider.willMeet('hold_then_execute')
    const running = this.execute(engine, this.ride, key)
    await this.provider.arrived()
    await this.execute(engine, this.ride, key)
    await this.provider.letGo()
    await running
    await this.execute(engine, this.ride, key)
    await this.execute(engine, this.ride, key, 2)
  }

  /** A call that fails, and the retry that takes the key over. */
  async retry(engine: Engine<Database>): Promise<void> {
    const key = randomUUID()
    await this.provider.willMeet('refuse_500')
    await this.execute(engine, this.ride, key)
    await this.execute(engine, this.ride, key)
  }

  /** A transaction that meets a conflict. */
  async conflict(): Promise<void> {
    let tries = 0
    const conflicts = pipeline<RideInput>({ name: 'conflicts', version: 1 })
      .local('done', async ({ tx }) => {
        if (tries++ === 0) await sql`DO $$ BEGIN RAISE 'again' USING ERRCODE = '40001'; END $$`.execute(tx)
      })
      .finish(() => respond(200))
    await this.execute(this.engine(this.options([conflicts])), conflicts)
  }

  /** A COMMIT whose answer is lost. */
  async lostAnswer(): Promise<void> {
    const proxy = await PostgresProxy.start(this.database.url)
    const struck = proxy.armCommit('answer_lost')
    const pool = this.database.pool({ connectionString: proxy.url })
    await this.execute(this.engine(this.options([this.ride], { pool })))
    await struck
    await pool.end()
    await proxy.close()
  }

  /** A call whose outcome nobody will know, with and without a way on. */
  async unknownOutcomes(): Promise<void> {
    const mails = pipeline<RideInput>({ name: 'mails', version: 1 })
      .foreign('mailed', { guarantee: 'at_most_once', call, whenUnknown: () => ({}) })
      .finish(() => respond(200))
    const charges = pipeline<RideInput>({ name: 'charges', version: 1 })
      .foreign('charged', { guarantee: 'at_most_once', call })
      .finish(() => respond(200))
    const engine = this.engine(this.options([mails, charges]))
    await this.execute(engine, mails)
    await this.execute(engine, charges)
  }

  /** A process that froze past its lease. */
  async zombie(engine: Engine<Database>): Promise<void> {
    const key = randomUUID()
    const {
      engine: slow,
      frozen,
      wake,
    } = engineThatFreezesAt(this.options(), 'ride_created/advance_key#1:before')
    this.instrumented(slow)
    const zombie = this.execute(slow, this.ride, key)
    await frozen
    await this.database.expireLeases()
    await this.execute(engine, this.ride, key)
    wake()
    await zombie
  }

  /** A database that is away. Returns the engine that cannot reach it. */
  async away(): Promise<Engine<Database>> {
    const pool = new pg.Pool({ host: '127.0.0.1', port: 1 })
    const engine = this.engine(this.options([this.ride], { pool, breaker: { failures: 1 } }))
    await this.execute(engine)
    return engine
  }

  /** An idle connection that breaks. */
  warning(): void {
    const options = this.options()
    this.engine(options)
    options.pool.emit('error', new Error('reset by peer'), new pg.Client())
  }

  /** A job that is delivered, one that is given up, and a round of a started completer. */
  async rounds(engine: Engine<Database>): Promise<void> {
    await this.execute(engine)
    const sink = deliverEach(() => Promise.resolve())
    const broken = deliverEach(() => Promise.reject(new Error('no such queue')))
    await createBackground({ engine, relay: { sink } }).runOnce()
    await this.execute(engine)
    await createBackground({ engine, relay: { sink: broken, maxAttempts: 1 } }).runOnce()
    const background = createBackground({ engine, reaper: false })
    const ended = heard('pawl:round')
    background.start()
    await ended
    await background.stop()
  }
}
