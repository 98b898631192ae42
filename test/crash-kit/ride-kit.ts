import {
  type CrashKit,
  crashKit,
  type CrashKitOptions,
  type FakeProvider,
  fakeProvider,
} from '@pawl/crash-kit'
import { type Pipeline, respond, retryLater } from '@pawl/core'
import pg from 'pg'
import { inject } from 'vitest'
import { type Database, pipeline, type RideInput } from '../support/rides.js'

/** The three-phase ride of the design, against a fake provider. */
export function rideAt(provider: FakeProvider): Pipeline<Database, RideInput> {
  return pipeline<RideInput>({ name: 'create-ride', version: 1 })
    .local('ride_created', async ({ tx, input, scope, keyId }) => {
      const ride = await tx
        .insertInto('rides')
        .values({ rider: scope, amount: input.amount, key_id: keyId })
        .returning('id')
        .executeTakeFirstOrThrow()
      return { rideId: ride.id }
    })
    .foreign('charge_created', {
      call: ({ input, idempotencyKey, signal }) =>
        provider.send({ amount: input.amount }, { idempotencyKey, signal }),
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => retryLater(error),
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId })
      return respond(201, { id: state.rideId, charge: state.chargeId })
    })
}

/** Tables of a ride, in the schema that the kit prepares. */
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
      key_id uuid REFERENCES ${pawlSchema}.idempotency_keys (id) ON DELETE SET NULL);
    CREATE TABLE audit (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), what text NOT NULL)`)
}

/** A pool that only says where the database is. */
export function whereabouts(): pg.Pool {
  return new pg.Pool({ connectionString: inject('databaseUrl') })
}

/** A kit for the ride, or for what is made of it. */
export function rideKit(
  more: Partial<CrashKitOptions<Database, RideInput>> = {},
  provider: FakeProvider = fakeProvider(),
): CrashKit {
  return crashKit<Database, RideInput>({
    pipeline: () => rideAt(provider),
    pool: whereabouts(),
    provider,
    prepare: prepareRides,
    request: { scope: 'rider-1', input: { amount: 1_200 } },
    ...more,
  })
}
