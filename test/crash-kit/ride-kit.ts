import {
  type CrashKit,
  crashKit,
  type CrashKitOptions,
  type FakeProvider,
  fakeProvider,
} from '@pawl/crash-kit'
import type { Pipeline } from '@pawl/core'
import pg from 'pg'
import { inject } from 'vitest'
import { createRideOf, type Database, type RideInput } from '../support/rides.js'
import { BOUND, guarded } from '../support/guards.js'
import { keyReference, LAYOUT } from '../support/layout.js'

/** The three-phase ride of the design, against a fake provider. */
export function rideAt(provider: FakeProvider): Pipeline<Database, RideInput> {
  return createRideOf({
    charge: async (amount, options) => {
      const { id } = await provider.send({ amount }, options)
      return { id, amount }
    },
  })
}

/** Creates the tables of a ride, in the schema that the kit prepares. */
export async function prepareRides({
  pool,
  pawlSchema,
}: {
  readonly pool: pg.Pool
  readonly pawlSchema: string
}): Promise<void> {
  await pool.query(`
    CREATE TABLE rides (
      id uuid PRIMARY KEY DEFAULT gen_random_uuid(), rider text NOT NULL, amount integer NOT NULL, charge_id text,
      ${keyReference(pawlSchema)});
    CREATE TABLE audit (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), what text NOT NULL)`)
}

/** Returns a pool that only says where the database is. */
export function whereabouts(): pg.Pool {
  return new pg.Pool({ connectionString: inject('databaseUrl') })
}

/** Returns a kit for the ride, or for a variation of it. */
export function rideKit(
  more: Partial<CrashKitOptions<Database, RideInput>> = {},
  provider: FakeProvider = fakeProvider(),
): CrashKit {
  return crashKit<Database, RideInput>({
    pipeline: () => rideAt(provider),
    pool: whereabouts(),
    provider,
    prepare: prepareRides,
    ...LAYOUT,
    request: { scope: 'rider-1', input: { amount: 1_200 }, ...BOUND },
    ...more,
    engine: guarded(more.engine ?? {}),
  })
}
