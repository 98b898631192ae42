import { createHash } from 'node:crypto'
import { createOperator, type Operator, type Outcome, respond } from '@pawl/core'
import { expect } from 'vitest'
import { atMostOnceRideOf } from '../support/guarded-rides.js'
import type { Provider } from '../support/provider.js'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables, pipeline, type RideInput } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

export const because = { actor: 'anna@ops-1', reason: 'the provider says so' }

/** What is recorded of a value: enough to recognise it, but none of its content. */
export const digestOf = (value: unknown) => {
  const json = Buffer.from(JSON.stringify(value))
  return { sha256: createHash('sha256').update(json).digest('hex'), bytes: json.length }
}

export const nameOf = ({ scope, key }: RideTrial) => ({ scope, key })

/** A pipeline whose provider forgets idempotency keys after a minute. */
const windowedRideOf = (provider: Provider) =>
  pipeline<RideInput>({ name: 'windowed-ride', version: 1 })
    .foreign('charge_created', {
      windowMs: 60_000,
      call: ({ input, idempotencyKey }) => provider.charge(input.amount, { idempotencyKey }),
      settle: ({ result }) => ({ chargeId: result.id }),
      reference: (result) => result.id,
    })
    .finish(({ state }) => respond(201, state))

/** A database with rides that become stuck, each for its own reason, and an operator who looks after them. */
export class StuckRides {
  readonly database: TestDatabase
  readonly operator: Operator
  readonly #pool

  private constructor(database: TestDatabase) {
    this.database = database
    this.operator = createOperator({ pool: database.pool(), schema: database.schema })
    this.#pool = database.pool()
  }

  static async create(): Promise<StuckRides> {
    const database = await TestDatabase.create()
    await createRideTables(database)
    return new StuckRides(database)
  }

  /** Executes the ride on a new engine, as after a deploy. */
  readonly execute = async (trial: RideTrial): Promise<Outcome> => {
    const engine = createEngine(trial.options(this.#pool))
    const outcome = await trial.execute(engine)
    await engine.close()
    return outcome
  }

  /** The interventions that were recorded for a key. */
  readonly audit = (trial: RideTrial) =>
    this.database.rows<{
      action: string
      actor: string
      reason: string
      detail: { before: object; given: object }
    }>('SELECT action, actor, reason, detail FROM pawl.interventions WHERE scope = $1 ORDER BY created_at', [
      trial.scope,
    ])

  /** A ride whose one call was cut off: nobody here knows whether the provider executed it. */
  readonly stuckOnce = async (fault: 'never_arrives' | 'executes_then_cuts'): Promise<RideTrial> => {
    const trial = new RideTrial(this.database, atMostOnceRideOf)
    await trial.provider.willMeet(fault)
    expect(await this.execute(trial)).toMatchObject({ type: 'stuck', reason: 'unknown_outcome' })
    return trial
  }

  /** A ride whose call may have been made longer ago than its provider remembers. */
  readonly stuckByWindow = async (): Promise<RideTrial> => {
    const trial = new RideTrial(this.database, windowedRideOf)
    await trial.dieAt('charge_created/call#1:after')
    await this.database.expireLeases()
    await this.#age(trial, 2)
    expect(await this.execute(trial)).toMatchObject({ type: 'stuck', reason: 'window_passed' })
    return trial
  }

  /** A ride that nobody finished within its day. */
  readonly stuckByAge = async (): Promise<RideTrial> => {
    const trial = new RideTrial(this.database)
    await trial.dieAt('ride_created/commit#1:after')
    await this.database.expireLeases()
    await this.#age(trial, 60 * 25)
    expect(await this.execute(trial)).toMatchObject({ type: 'stuck', reason: 'too_old' })
    return trial
  }

  async #age(trial: RideTrial, minutes: number): Promise<void> {
    await this.database.rows(
      `UPDATE pawl.idempotency_keys SET created_at = created_at - $2 * interval '1 minute' WHERE scope = $1`,
      [trial.scope, minutes],
    )
  }
}
