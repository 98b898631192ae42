import { randomUUID } from 'node:crypto'
import type { Engine, KeyView, Outcome, Pipeline, PipelineSettings } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import type { Transaction } from 'kysely'
import { createRideTables, type Database } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

export const FEWEST = { commits: 'fewest' } as const

/** A pipeline on an engine of its own, and the statements of the framework that it has sent. */
interface Started {
  readonly engine: Engine<Database>
  readonly execute: () => Promise<Outcome>
  readonly view: () => Promise<KeyView | null>
  readonly steps: readonly string[]
}

/** Requests whose phases write down that they ran: in memory, and in rows that are there only if they committed. */
export class LegTrial {
  readonly database: TestDatabase
  /** Which functions ran, in order. */
  readonly ran: string[] = []

  private constructor(database: TestDatabase) {
    this.database = database
  }

  static async open(): Promise<LegTrial> {
    const database = await TestDatabase.create()
    await createRideTables(database)
    return new LegTrial(database)
  }

  async clear(): Promise<void> {
    this.ran.length = 0
    await this.database.rows('TRUNCATE audit, rides')
  }

  async note({ tx }: { readonly tx: Transaction<Database> }, what: string): Promise<void> {
    this.ran.push(what)
    await tx.insertInto('audit').values({ what }).execute()
  }

  async noted(): Promise<string[]> {
    const rows = await this.database.rows<{ what: string }>('SELECT what FROM audit ORDER BY what')
    return rows.map(({ what }) => what)
  }

  start(
    defined: Pipeline<Database, null>,
    settings: PipelineSettings = FEWEST,
    connectionString?: string,
  ): Started {
    const steps: string[] = []
    const pool = this.database.pool(connectionString === undefined ? {} : { connectionString })
    const engine = createProbedEngine<Database>(
      { pool, pipelines: [defined], schema: this.database.schema, defaults: settings },
      ({ step, when }) => void (when === 'before' && steps.push(step)),
    )
    const request = { scope: 's', key: randomUUID(), input: null }
    const execute = () => engine.execute(defined, request)
    const view = () => engine.inspect(request.scope, request.key)
    return { engine, execute, view, steps }
  }
}

/** The recovery points that a key has reached. */
export const points = (view: KeyView | null): string[] | undefined => view?.trail.map(({ point }) => point)
