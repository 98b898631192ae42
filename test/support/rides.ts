import { randomUUID } from 'node:crypto'
import { pawl, type Pipeline, respond, retryLater } from '@pawl/core'
import type { Generated } from 'kysely'
import { type Provider, ProviderError } from './provider.js'
import type { TestDatabase } from './test-database.js'
import { keyReference } from './layout.js'

export interface Database {
  rides: {
    id: Generated<string>
    rider: string
    amount: number
    charge_id: string | null
    key_id: string | null
  }
  audit: { id: Generated<string>; what: string }
}

export const { pipeline, createEngine } = pawl<Database>()

export interface RideInput {
  readonly amount: number
}

export async function createRideTables(database: TestDatabase): Promise<void> {
  await database.rows(`
    CREATE TABLE ${database.businessSchema}.rides (
      id uuid PRIMARY KEY DEFAULT gen_random_uuid(), rider text NOT NULL, amount integer NOT NULL, charge_id text,
      ${keyReference('pawl', database.isPartitioned)});
    CREATE TABLE ${database.businessSchema}.audit (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), what text NOT NULL)`)
}

/** The three-phase ride of the design: create, charge, answer. */
export function createRideOf(provider: Pick<Provider, 'charge'>): Pipeline<Database, RideInput> {
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
      call: ({ input, idempotencyKey, signal }) => provider.charge(input.amount, { idempotencyKey, signal }),
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) =>
        error instanceof ProviderError && error.status === 402
          ? respond(402, { code: error.code })
          : retryLater(error),
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId })
      return respond(
        201,
        { id: state.rideId, charge: state.chargeId },
        { headers: { location: `/rides/${state.rideId}` } },
      )
    })
}

/** The same, with rows that travel with the commit. */
export function writingRideOf(provider: Pick<Provider, 'charge'>): Pipeline<Database, RideInput> {
  return pipeline<RideInput>({ name: 'writing-ride', version: 1 })
    .local('ride_created', ({ tx, write, input, scope, keyId }) => {
      const rideId = randomUUID()
      write(tx.insertInto('rides').values({ id: rideId, rider: scope, amount: input.amount, key_id: keyId }))
      return { rideId }
    })
    .foreign('charge_created', {
      call: ({ input, idempotencyKey, signal }) => provider.charge(input.amount, { idempotencyKey, signal }),
      settle: ({ tx, write, state, result }) => {
        write(tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId))
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
