import { randomUUID } from 'node:crypto'
import { type Engine, type EngineOptions, type Outcome, type PawlMessages, subscribe } from '@pawl/core'
import { createProbedEngine, type Probe } from '@pawl/core/internal'
import { onTestFinished } from 'vitest'
import { drawn, type WatchedEngine } from './replica-trial.js'
import { createRideTables, type Database } from './rides.js'
import { TestDatabase } from './test-database.js'

export { drawn }

type From = PawlMessages['pawl:replayed']['from']

/** A database, one request, and engines with a cache or without one. */
export class CacheTrial {
  readonly database: TestDatabase
  readonly scope = `rider-${randomUUID()}`
  readonly key: string = randomUUID()

  private constructor(database: TestDatabase) {
    this.database = database
  }

  static async create(): Promise<CacheTrial> {
    const database = await TestDatabase.create()
    await createRideTables(database)
    return new CacheTrial(database)
  }

  /** It is patient with its cache: the machine may be busy. The end of the test closes it. */
  engine(more: Partial<EngineOptions<Database>> = {}, at: Probe = () => undefined): WatchedEngine {
    const steps: string[] = []
    const { schema } = this.database
    const patience = more.cache === undefined ? {} : { cacheTimeoutMs: 1_000 }
    const engine = createProbedEngine<Database>(
      { pool: this.database.pool(), pipelines: [drawn], schema, ...patience, ...more },
      (position) => {
        if (position.when === 'before') steps.push(`${position.phase}/${position.step}`)
        return at(position)
      },
    )
    onTestFinished(() => engine.close())
    return { engine, steps }
  }

  execute(engine: Engine<Database>, key: string = this.key): Promise<Outcome> {
    return engine.execute(drawn, { scope: this.scope, key, input: 7 })
  }

  /** The request, finished without a look at a cache. */
  async finished(): Promise<Extract<Outcome, { type: 'completed' }>> {
    const outcome = await this.execute(this.engine().engine)
    if (outcome.type !== 'completed') throw new Error(`it is ${outcome.type}`)
    return outcome
  }

  /** Executes again and again until the key is replayed from there. Returns that outcome. */
  async replayedFrom(engine: Engine<Database>, from: From, key: string = this.key): Promise<Outcome> {
    for (;;) {
      const { outcome, source } = await this.execution(engine, key)
      if (outcome.type !== 'replayed') throw new Error(`it is ${outcome.type}`)
      if (source === from) return outcome
    }
  }

  /** Makes sure that an engine knows the epoch. */
  async warmUp(engine: Engine<Database>): Promise<void> {
    const key = randomUUID()
    await this.execute(engine, key)
    await this.replayedFrom(engine, 'cache', key)
  }

  /** Executes once, and says where a replay came from. */
  async execution(
    engine: Engine<Database>,
    key: string = this.key,
  ): Promise<{ readonly outcome: Outcome; readonly source: From | null }> {
    let source: From | null = null
    const stop = subscribe('pawl:replayed', ({ from }) => {
      source = from
    })
    try {
      return { outcome: await this.execute(engine, key), source }
    } finally {
      stop()
    }
  }

  drop(): Promise<void> {
    return this.database.drop()
  }
}
