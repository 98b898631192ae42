import { randomUUID } from 'node:crypto'
import {
  createEngine,
  type Engine,
  type EngineOptions,
  type JsonValue,
  type Outcome,
  type Pipeline,
} from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import pg from 'pg'
import { inject } from 'vitest'
import { engineThatDiesAt, positionNamer } from '../../support/crash.js'
import { Provider } from '../../support/provider.js'
import { BOUND, guarded } from '../../support/guards.js'
import type { TestDatabase } from '../../support/test-database.js'
import { buildPipeline, type ChargeProvider } from './build-pipeline.js'
import { Chances } from './chances.js'
import type { FactDatabase } from './fact-tables.js'
import type { PipelinePlan } from './pipeline-plan.js'

/** More than all troubles of the largest plan together: a client that is still told to come back would never be done. */
const MAX_TRIES = 100

type Final = Extract<Outcome, { type: 'completed' | 'replayed' | 'stuck' }>

/** How a request ended, and what its client was told on the way. */
export interface Ended {
  readonly outcome: Final
  readonly setbacks: readonly string[]
}

/** One request of one plan, with its own scope on a shared database, and its own account at the provider. */
export class PlanTrial {
  readonly plan: PipelinePlan
  readonly database: TestDatabase
  readonly provider = new Provider(inject('providerUrl'))
  readonly scope = `scope-${randomUUID()}`
  readonly #input: JsonValue
  readonly #pipeline: Pipeline<FactDatabase, JsonValue>

  constructor(database: TestDatabase, plan: PipelinePlan, input: JsonValue) {
    this.plan = plan
    this.database = database
    this.#input = input
    this.#pipeline = buildPipeline(plan, { provider: chargesAt(this.provider), chances: new Chances() })
  }

  /** Asks until there is a final answer, on an engine of its own. */
  async run(pool: pg.Pool): Promise<Ended> {
    const engine = createEngine<FactDatabase>(this.#options(pool))
    try {
      return await this.#askUntilFinal(engine)
    } finally {
      await engine.close()
    }
  }

  /** The same, and returns the name of every position that was passed as well. */
  async runWatched(pool: pg.Pool): Promise<Ended & { readonly positions: readonly string[] }> {
    const name = positionNamer()
    const positions: string[] = []
    const engine = createProbedEngine<FactDatabase>(
      this.#options(pool),
      (position) => void positions.push(name(position)),
    )
    try {
      return { ...(await this.#askUntilFinal(engine)), positions }
    } finally {
      await engine.close()
    }
  }

  /** Asks on an engine that dies at a position, and returns when the server has noticed and the lease is over. */
  async dieAt(at: string): Promise<void> {
    const application = `doomed_${randomUUID()}`
    // This is not one of the database's pools: its clients are never given back, so it could not be ended.
    const pool = new pg.Pool({
      connectionString: this.database.url,
      options: `-c search_path=${this.database.businessSchema}`,
      application_name: application,
    })
    pool.on('error', () => {})
    // An engine that is never closed never unsubscribes its strict mode, and there are many of them here.
    const { engine, died } = engineThatDiesAt({ ...this.#options(pool), strict: false }, at)
    const outlived = this.#askUntilFinal(engine).then(() => {
      throw new Error(`the request came to its end without passing ${at}`)
    })
    await Promise.race([died, outlived])
    await this.database.backendsGone(application)
    await this.database.expireLeases()
  }

  async #askUntilFinal(engine: Engine<FactDatabase>): Promise<Ended> {
    const setbacks: string[] = []
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const request = { scope: this.scope, key: 'key', input: this.#input, ...BOUND }
      const outcome = await engine.execute(this.#pipeline, request)
      switch (outcome.type) {
        case 'completed':
        case 'replayed':
        case 'stuck':
          return { outcome, setbacks }
        case 'retry_later':
          setbacks.push(outcome.reason)
          if (outcome.reason === 'outcome_pending') await this.#passDeadline()
          continue
        default:
          throw new Error(`nobody else runs it, and yet: ${JSON.stringify(outcome)}`)
      }
    }
    throw new Error(`still not final after ${MAX_TRIES} tries: ${setbacks.join(', ')}`)
  }

  /** Moves the declared deadline so far back that the provider's quiet time is over as well. */
  async #passDeadline(): Promise<void> {
    await this.database.rows(
      `UPDATE pawl.idempotency_keys SET intent = jsonb_set(intent::jsonb, '{deadlineMs}',
              to_jsonb((intent->>'deadlineMs')::numeric - 3600000))
        WHERE scope = $1 AND intent->>'kind' = 'calling'`,
      [this.scope],
    )
  }

  #options(pool: pg.Pool): EngineOptions<FactDatabase> {
    return guarded({ pool, pipelines: [this.#pipeline], schema: this.database.schema })
  }
}

/** The provider's process takes an amount, so the phase's number is sent as the amount. */
function chargesAt(provider: Provider): ChargeProvider {
  return {
    charge: ({ number }, options) => provider.charge(number, options),
    find: (idempotencyKey) => provider.find(idempotencyKey),
  }
}
