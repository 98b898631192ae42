import { randomUUID } from 'node:crypto'
import type { Engine, Outcome, Pipeline } from '@pawl/core'
import { inject, onTestFinished } from 'vitest'
import { Provider } from '../support/provider.js'
import { TestDatabase } from '../support/test-database.js'
import type { Core } from './load-variant.js'
import { chargeAt, findAt } from './charge-at.js'
import { createRideTables, type RideDatabase, type RideInput, type RideOf } from './ride-of.js'
import { BOUND, guarded } from '../support/guards.js'
import { LAYOUT } from '../support/layout.js'

/** One ride on an engine of the given core, on its own tables. It ends with the test. */
export class RideBench {
  readonly core: Core
  readonly database: TestDatabase
  readonly provider: Provider
  readonly #rideOf: RideOf
  readonly #key = randomUUID()

  private constructor(core: Core, database: TestDatabase, rideOf: RideOf) {
    this.core = core
    this.database = database
    this.provider = new Provider(inject('providerUrl'))
    this.#rideOf = rideOf
  }

  static async open(core: Core, rideOf: RideOf): Promise<RideBench> {
    const database = await TestDatabase.create()
    onTestFinished(() => database.drop())
    // These are the tables of this core, because it may be broken there.
    await database.rows(`DROP SCHEMA ${database.schema} CASCADE`)
    await core.migrate(database.admin, { schema: database.schema, ...LAYOUT })
    await createRideTables(database.admin, database.businessSchema, database.schema)
    return new RideBench(core, database, rideOf)
  }

  /** Executes on a new engine with a new pipeline, as another process would. */
  async execute(how: { readonly strict?: boolean; readonly amount?: number } = {}): Promise<Outcome> {
    const { strict = true, amount = 1_200 } = how
    const { account, url } = this.provider
    const at = { charge: chargeAt(url, { account }), find: findAt(url, { account }) }
    const ride: Pipeline<RideDatabase, RideInput> = this.#rideOf(this.core, at.charge, at.find)
    const { schema } = this.database
    const pool = this.database.pool()
    const engine: Engine<RideDatabase> = this.core.createEngine<RideDatabase>({
      ...guarded({ strict }, this.core),
      pool,
      pipelines: [ride],
      schema,
    })
    try {
      return await engine.execute(ride, { scope: 'rider', key: this.#key, input: { amount }, ...BOUND })
    } finally {
      await engine.close()
    }
  }

  keys(): Promise<{ status: string }[]> {
    return this.database.rows('SELECT status FROM pawl.idempotency_keys')
  }

  rides(): Promise<{ amount: number; charge_id: string | null }[]> {
    return this.database.rows('SELECT amount, charge_id FROM rides')
  }
}
