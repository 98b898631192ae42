import { createBackground, type Engine, respond, retryLater } from '@pawl/core'
import { expect } from 'vitest'
import { buryJobs } from '../cli/filled-database.js'
import { dieAt } from '../support/die-at.js'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import type { TestDatabase } from '../support/test-database.js'

export const SCOPE = 'rider-7'
const DAY_MS = 86_400_000

/** The date so many days from today, as people write it. */
export const day = (offset: number): string =>
  new Date(Date.now() + offset * DAY_MS).toISOString().slice(0, 10)

interface Trip {
  readonly trip: number
}
interface Charge {
  readonly id: string
  readonly idempotencyKey: string
  readonly at: Date
}

/** The provider, and what is wrong at the moment. */
class World {
  readonly charges = new Map<string, Charge>()
  faxes = 0
  hasBug = false
  provider: 'well' | 'away' | 'asks for patience' = 'well'

  charge({ trip }: Trip, idempotencyKey: string): { readonly id: string } {
    if (this.provider === 'away') throw new Error('connect ETIMEDOUT 10.0.0.7:443')
    const charge = this.charges.get(idempotencyKey) ?? { id: `ch_${trip}`, idempotencyKey, at: new Date() }
    this.charges.set(idempotencyKey, charge)
    if (this.provider === 'asks for patience') throw new Error('answer got lost; provider in maintenance')
    return { id: charge.id }
  }
}

const createRideOf = (world: World) =>
  pipeline<Trip>({ name: 'create-ride', version: 2 })
    .local('ride_created', () => ({ rideId: 'r' }))
    .foreign('charge_created', {
      call: ({ input, idempotencyKey }) => world.charge(input, idempotencyKey),
      settle: ({ result }) => ({ chargeId: result.id }),
      reference: (result) => result.id,
      onError: ({ error }) =>
        retryLater(error, world.provider === 'asks for patience' ? { afterMs: DAY_MS } : {}),
    })
    .local('seat_taken', () => {
      if (world.hasBug) throw new TypeError("Cannot read properties of undefined (reading 'seat')")
    })
    .finish(async ({ input, stage }) => {
      await stage('send_receipt', { trip: input.trip })
      return respond(201, { trip: input.trip })
    })

const faxPermitOf = (world: World) =>
  pipeline<Trip>({ name: 'fax-permit', version: 1 })
    .foreign('permit_faxed', {
      guarantee: 'at_most_once',
      call: (): { id: string } => {
        world.faxes++
        throw new Error('line broke after 2 of 3 pages')
      },
      settle: ({ result }) => ({ faxId: result.id }),
      reference: (result) => result.id,
    })
    .finish(({ state }) => respond(201, { fax: state.faxId }))

/** A database with a key of every kind that a person meets. */
export class Story {
  readonly world = new World()
  readonly createRide = createRideOf(this.world)
  readonly faxPermit = faxPermitOf(this.world)
  readonly #database: TestDatabase

  constructor(database: TestDatabase) {
    this.#database = database
  }

  engine(): Engine<Database> {
    return createEngine({ ...this.#options(), pool: this.#database.pool(), schema: this.#database.schema })
  }

  async fill(): Promise<void> {
    const { world, createRide, faxPermit } = this
    const engine = this.engine()
    const ride = (trip: number) => ({ scope: SCOPE, key: `ride-${trip}`, input: { trip } })
    await engine.execute(createRide, ride(1001))
    await buryJobs(engine, '550 mailbox unavailable')

    world.hasBug = true
    while ((await engine.execute(createRide, ride(1002))).type !== 'stuck');
    world.hasBug = false

    world.provider = 'away'
    await engine.execute(createRide, ride(1003))
    await this.#age('ride-1003', '23.5 hours')
    await this.#resume(engine, 'ride-1003')
    world.provider = 'well'

    await engine.enqueue(createRide, ride(1004))
    await this.#age('ride-1004', '25 hours')
    await this.#resume(engine, 'ride-1004')

    await engine.execute(faxPermit, { scope: SCOPE, key: 'permit-1005', input: { trip: 1005 } })

    await dieAt(this.#database, this.#options(), 'charge_created/call#1:after', (doomed) =>
      doomed.execute(createRide, ride(1006)),
    )

    world.provider = 'asks for patience'
    await engine.execute(createRide, ride(1007))
    world.provider = 'well'
    await engine.close()
  }

  /** What a completer in some other process does meanwhile. */
  async complete(): Promise<void> {
    const engine = this.engine()
    await createBackground({ engine, reaper: false }).runOnce()
    await engine.close()
  }

  #options() {
    return { pipelines: [this.createRide, this.faxPermit] }
  }

  async #age(key: string, by: string): Promise<void> {
    await this.#database.rows(
      `UPDATE pawl.idempotency_keys
          SET created_at = created_at - $2::interval, updated_at = updated_at - $2::interval,
              trail = coalesce((SELECT jsonb_agg(e || jsonb_build_object('t', (e ->> 't')::bigint - (extract(epoch FROM $2::interval) * 1000)::bigint))::json
                         FROM jsonb_array_elements(trail::jsonb) AS e), trail)
        WHERE key = $1`,
      [key, by],
    )
  }

  async #resume(engine: Engine<Database>, key: string): Promise<void> {
    const view = await engine.inspect(SCOPE, key)
    expect(await engine.resume(view?.keyId ?? '')).toMatchObject({ type: 'stuck' })
  }
}
