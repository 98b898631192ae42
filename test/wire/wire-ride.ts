import type { Pipeline } from '@pawl/core'
import type { FakeProvider } from '@pawl/crash-kit'
import type { PrepareContext } from '../../packages/crash-kit/src/database/kit-database.js'
import type { History, PipelineShape, Violation } from '../../packages/crash-kit/src/history.js'
import { businessRows } from '../../packages/crash-kit/src/oracle/business-rows.js'
import { lastStates } from '../../packages/crash-kit/src/oracle/key-writes.js'
import { createRideOf, type Database, type RideInput } from '../support/rides.js'
import { keyReference } from '../support/layout.js'

export const RIDE_TABLES = ['rides'] as const

export const RIDE_SHAPE: PipelineShape = {
  name: 'create-ride',
  version: 1,
  points: ['started', 'ride_created', 'charge_created', 'finished'],
  foreign: [{ phase: 'charge_created', guarantee: 'keyed' }],
  maxAttempts: 10,
}

export async function prepareRides({ pool, pawlSchema }: PrepareContext): Promise<void> {
  await pool.query(`
    CREATE TABLE rides (
      id uuid PRIMARY KEY DEFAULT gen_random_uuid(), rider text NOT NULL, amount integer NOT NULL, charge_id text,
      ${keyReference(pawlSchema)})`)
}

type Charge = Parameters<typeof createRideOf>[0]['charge']

/** The ride of the design, unchanged. Each request has its own amount, so that its charges show whose they are. */
export class WireRides<DB = Database> {
  readonly pipeline: Pipeline<DB, RideInput>
  readonly #scopes = new Map<number, string>()

  constructor(provider: FakeProvider, rideOf: (charge: Charge) => Pipeline<DB, RideInput>) {
    this.pipeline = rideOf(async (amount, options) => {
      const scope = this.#scopes.get(amount) ?? ''
      const { id } = await provider.send({ scope, phase: 'charge_created', amount }, options)
      return { id, amount }
    })
  }

  /** One of those in test/support. */
  static shipped(provider: FakeProvider, rideOf = createRideOf): WireRides {
    return new WireRides(provider, (charge) => rideOf({ charge }))
  }

  readonly inputOf = (scope: string): RideInput => {
    const amount = this.#scopes.size + 1
    this.#scopes.set(amount, scope)
    return { amount }
  }
}

/** Expects one of everything, however it came about. */
export function oneWholeRide(history: History): Violation[] {
  const { commits, requests, outcomes } = history
  const charges = requests.filter(({ executed }) => executed)
  const rides = businessRows(commits)['rides'] ?? []
  const changes = commits.flatMap((commit) => commit.changes).filter(({ op }) => op === 'INSERT')
  const count = (table: string): number => changes.filter((change) => change.table === table).length
  const [key] = [...lastStates(history).values()]
  const seen = {
    charges: charges.length,
    rides: rides.length,
    chargedRides: rides.filter(({ charge_id }) => charge_id !== null).length,
    effects: count('effects'),
    jobs: count('staged_jobs'),
    status: key?.state.status,
    trail: key?.state.trail.map(({ p }) => p).join(),
    answered: outcomes.some(({ outcome }) => outcome.type === 'completed' || outcome.type === 'replayed'),
  }
  const wanted: typeof seen = {
    charges: 1,
    rides: 1,
    chargedRides: 1,
    effects: 1,
    jobs: 1,
    status: 'finished',
    trail: 'ride_created,charge_created,finished',
    answered: true,
  }
  return JSON.stringify(seen) === JSON.stringify(wanted)
    ? []
    : [{ rule: 'oracle', title: 'a ride has one of everything', detail: JSON.stringify(seen) }]
}
