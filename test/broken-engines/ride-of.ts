import type { Pipeline, PipelineSettings } from '@pawl/core'
import type { Generated } from 'kysely'
import type pg from 'pg'
import type { Core } from './load-variant.js'
import { keyReference } from '../support/layout.js'

export interface RideDatabase {
  rides: {
    id: Generated<string>
    rider: string
    amount: number
    charge_id: string | null
    return_charge_id: string | null
    key_id: string | null
  }
}

export interface RideInput {
  readonly amount: number
}

/** The foreign side effect. What the provider refuses is thrown, with the answer's `status`. */
export type Charge = (
  request: { readonly amount: number; readonly note?: string },
  how: { readonly idempotencyKey?: string; readonly signal?: AbortSignal },
) => Promise<{ readonly id: string }>

/** Asks for the charge that was made under a key, which is null if there is none. */
export type FindCharge = (idempotencyKey: string) => Promise<{ readonly id: string } | null>

/** Writes a pipeline with a core: `respond` and the like have to be those of the engine that runs it. */
export type RideOf = (core: Core, charge: Charge, find: FindCharge) => Pipeline<RideDatabase, RideInput>

/** The business tables. Rides refer to their key, as the guide advises. */
export async function createRideTables(pool: pg.Pool, schema: string, pawlSchema: string): Promise<void> {
  await pool.query(`CREATE TABLE ${schema}.rides (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), rider text NOT NULL, amount integer NOT NULL, charge_id text,
    return_charge_id text, ${keyReference(pawlSchema)})`)
}

/** How every ride begins. */
export function beginRide(core: Core, name: string, settings: PipelineSettings = {}) {
  return core
    .pawl<RideDatabase>()
    .pipeline<RideInput>({ name, version: 1, ...settings })
    .local('ride_created', async ({ tx, input, scope, keyId }) => {
      const ride = await tx
        .insertInto('rides')
        .values({ rider: scope, amount: input.amount, key_id: keyId })
        .returning('id')
        .executeTakeFirstOrThrow()
      return { rideId: ride.id }
    })
}

/** A declined card is final. A provider that is away is not, and the client may be told so. */
export function answerTo({ respond, retryLater }: Core, error: unknown) {
  const { status = 0 } = error as { readonly status?: number }
  if (status === 402) return respond(402, { code: 'card_declined' })
  return status >= 500 ? respond(503, { code: 'try_again' }) : retryLater(error)
}
