import { randomUUID } from 'node:crypto'
import { type Engine, type EngineOptions, type Outcome, respond } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import type pg from 'pg'
import { onTestFinished } from 'vitest'
import type { ReplicatedServer } from './replicated-server.js'
import { createRideTables, type Database, pipeline } from './rides.js'
import { TestDatabase } from './test-database.js'

/** Its answer is never the same twice: a replay can be told from a second run. */
export const drawn = pipeline<number>({ name: 'drawn', version: 1 })
  .local('noted', async ({ tx, input }) => {
    await tx
      .insertInto('audit')
      .values({ what: String(input) })
      .execute()
  })
  .finish(() => respond(201, { number: randomUUID() }, { headers: { location: '/drawn' } }))

/** An engine, and every statement that it has sent, in order: `replica/find_key`, for instance. */
export interface WatchedEngine {
  readonly engine: Engine<Database>
  readonly steps: string[]
}

/** A database on a primary with a replica, and one request. */
export class ReplicaTrial {
  readonly database: TestDatabase
  readonly servers: ReplicatedServer
  readonly scope = `rider-${randomUUID()}`
  readonly key = randomUUID()

  private constructor(servers: ReplicatedServer, database: TestDatabase) {
    this.servers = servers
    this.database = database
  }

  static async create(servers: ReplicatedServer): Promise<ReplicaTrial> {
    const database = await TestDatabase.createNew(servers.primary.url)
    await createRideTables(database)
    await servers.caughtUp()
    return new ReplicaTrial(servers, database)
  }

  replicaPool(config: pg.PoolConfig = {}): pg.Pool {
    return this.database.pool({ connectionString: this.servers.replica.url, ...config })
  }

  /** An engine that replays from the replica. It is patient: the machine may be busy. The end of the test closes it. */
  engine(more: Partial<EngineOptions<Database>> = {}): WatchedEngine {
    return this.#watched({ replayFrom: this.replicaPool(), replayTimeoutMs: 30_000, ...more })
  }

  /** One that knows of no replica. */
  plainEngine(): WatchedEngine {
    return this.#watched({})
  }

  #watched(more: Partial<EngineOptions<Database>>): WatchedEngine {
    const steps: string[] = []
    const { schema } = this.database
    const engine = createProbedEngine<Database>(
      { pool: this.database.pool(), pipelines: [drawn], schema, ...more },
      ({ phase, step, when }) => void (when === 'before' && steps.push(`${phase}/${step}`)),
    )
    onTestFinished(() => engine.close())
    return { engine, steps }
  }

  execute(engine: Engine<Database>, key = this.key): Promise<Outcome> {
    return engine.execute(drawn, { scope: this.scope, key, input: 7 })
  }

  /** The request, finished on the primary, without a look at the replica. */
  async finished(): Promise<Extract<Outcome, { type: 'completed' }>> {
    const { engine } = this.plainEngine()
    const outcome = await this.execute(engine)
    if (outcome.type !== 'completed') throw new Error(`it is ${outcome.type}`)
    return outcome
  }

  drop(): Promise<void> {
    return this.database.drop()
  }
}
