import { randomUUID } from 'node:crypto'
import {
  type EngineOptions,
  type JsonValue,
  type Outcome,
  type Pipeline,
  respond,
  type Stage,
} from '@pawl/core'
import { graphileStager, type GraphileStagerOptions } from '@pawl/graphile-worker'
import type { Transaction } from 'kysely'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import type { GraphileDatabase } from './graphile-database.js'

type Body = (context: { readonly stage: Stage; readonly tx: Transaction<Database> }) => Promise<unknown>
type Target = Pipeline<Database, JsonValue>

/** A pipeline whose local phase is the given body. */
export function staging(
  body: Body,
  isolation: 'read committed' | 'repeatable read' = 'read committed',
): Target {
  return pipeline({ name: 'staging', version: 1, isolation })
    .local('staged', async ({ stage, tx }) => {
      await body({ stage, tx })
    })
    .finish(() => respond(201))
}

/** Runs pipelines on engines that stage into a test's graphile-worker. */
export class Staging {
  readonly #graphile: GraphileDatabase

  constructor(graphile: GraphileDatabase) {
    this.#graphile = graphile
  }

  options(
    target: Target,
    stager: GraphileStagerOptions = {},
    pool = this.#graphile.database.pool(),
  ): EngineOptions<Database> {
    return {
      pool,
      pipelines: [target],
      schema: this.#graphile.database.schema,
      stager: graphileStager({ schema: this.#graphile.schema, ...stager }),
    }
  }

  async execute(
    target: Target,
    options: Partial<EngineOptions<Database>> = {},
    key: string = randomUUID(),
  ): Promise<Outcome> {
    const engine = createEngine({ ...this.options(target), ...options })
    const outcome = await engine.execute(target, { scope: 's', key, input: null })
    await engine.close()
    return outcome
  }

  /** Stages one job in a phase that commits, if the job is taken. */
  stageOne(
    payload: JsonValue,
    { runAfterMs = 0, stager = {} }: { runAfterMs?: number; stager?: GraphileStagerOptions } = {},
  ): Promise<Outcome> {
    const target = staging(({ stage }) => stage('send_receipt', payload, { runAfterMs }))
    return this.execute(target, this.options(target, stager))
  }
}
