import { randomUUID } from 'node:crypto'
import type { Pipeline, PipelineSettings } from '@pawl/core'
import { sql, type Generated } from 'kysely'
import type pg from 'pg'
import type { Core } from './load-variant.js'
import type { NeededRide } from './variant.js'

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
    return_charge_id text, key_id uuid REFERENCES ${pawlSchema}.idempotency_keys (id) ON DELETE SET NULL)`)
}

/** Charges over HTTP. `fields` go into every request, such as the account at a provider that others share. */
export function chargeAt(url: string, fields: Readonly<Record<string, string>> = {}): Charge {
  return async (request, { idempotencyKey, signal }) => {
    const response = await fetch(`${url}/charges`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      },
      body: JSON.stringify({ ...request, ...fields }),
      ...(signal === undefined ? {} : { signal }),
    })
    const { id } = (await response.json()) as { id: string }
    if (response.ok) return { id }
    throw Object.assign(new Error(`the provider answered ${response.status}`), { status: response.status })
  }
}

/** Asks over HTTP. */
export function findAt(url: string, fields: Readonly<Record<string, string>> = {}): FindCharge {
  return async (key) => {
    const response = await fetch(`${url}/charges?${new URLSearchParams({ ...fields, key }).toString()}`)
    if (response.status === 404) return null
    const { id } = (await response.json()) as { id: string }
    return { id }
  }
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

/** The ride of the design: create, charge, answer. The provider deduplicates. */
const rideOf: RideOf = (core, charge) =>
  beginRide(core, 'ride')
    .foreign('charge_created', {
      call: ({ input, idempotencyKey, signal }) =>
        charge({ amount: input.amount }, { idempotencyKey, signal }),
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId })
      return core.respond(201, { ride: state.rideId, charge: state.chargeId })
    })

/** The same with a provider that neither deduplicates nor can be asked. */
const atMostOnceRideOf: RideOf = (core, charge) => atMostOnceRide(core, charge, {})

/** The same in legs: the first one declares the call. */
const atMostOnceInLegsOf: RideOf = (core, charge) => atMostOnceRide(core, charge, { commits: 'fewest' })

const atMostOnceRide = (core: Core, charge: Charge, settings: PipelineSettings) =>
  beginRide(core, 'at-most-once-ride', settings)
    .foreign('charge_created', {
      guarantee: 'at_most_once',
      call: ({ input, signal }) => charge({ amount: input.amount }, { signal }),
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId })
      return core.respond(201, { ride: state.rideId, charge: state.chargeId })
    })

/** The same with a provider that does not deduplicate, but can be asked. */
const queryableRideOf: RideOf = (core, charge, find) =>
  beginRide(core, 'queryable-ride')
    .foreign('charge_created', {
      guarantee: 'queryable',
      call: ({ input, idempotencyKey, signal }) =>
        charge({ amount: input.amount }, { idempotencyKey, signal }),
      reconcile: async ({ idempotencyKey }) => {
        const made = await find(idempotencyKey)
        return made === null ? core.absent() : core.found(made)
      },
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(({ state }) => core.respond(201, { ride: state.rideId, charge: state.chargeId }))

/** Whether its provider takes a second request under the same key for the same request. */
export function isDeduplicated(ride: RideOf): boolean {
  return ride !== queryableRideOf
}

/** There and back: two charges that look the same, and are two. */
const returnRideOf: RideOf = (core, charge) =>
  beginRide(core, 'return-ride')
    .foreign('charge_created', {
      call: ({ input, idempotencyKey, signal }) =>
        charge({ amount: input.amount }, { idempotencyKey, signal }),
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .foreign('return_charge_created', {
      call: ({ input, idempotencyKey, signal }) =>
        charge({ amount: input.amount }, { idempotencyKey, signal }),
      settle: async ({ tx, state, result }) => {
        const charged = { return_charge_id: result.id }
        await tx.updateTable('rides').set(charged).where('id', '=', state.rideId).execute()
        return { returnChargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId })
      const { rideId, chargeId, returnChargeId } = state
      return core.respond(201, { ride: rideId, charge: chargeId, return: returnChargeId })
    })

/** The error of a client that does not say why it has no answer. */
class ChargeFailed extends Error {}

/** Takes every error without a status of the provider for a declined card. */
const hastyRideOf: RideOf = (core, charge) =>
  beginRide(core, 'hasty-ride')
    .foreign('charge_created', {
      call: async ({ input, idempotencyKey, signal }) => {
        try {
          return await charge({ amount: input.amount }, { idempotencyKey, signal })
        } catch (error) {
          throw statusOf(error) === null ? new ChargeFailed('no charge') : error
        }
      },
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) =>
        error instanceof ChargeFailed ? core.respond(402, { code: 'charge_failed' }) : core.retryLater(error),
    })
    .finish(({ state }) => core.respond(201, { ride: state.rideId, charge: state.chargeId }))

const RECEIPT = 'x'.repeat(100 * 1024)

/** The provider's answer comes with a receipt, which settle does not need. */
const largeResultRideOf: RideOf = (core, charge) =>
  beginRide(core, 'large-result-ride')
    .foreign('charge_created', {
      guarantee: 'at_most_once',
      call: async ({ input, signal }) => {
        const { id } = await charge({ amount: input.amount }, { signal })
        return { id, receipt: RECEIPT }
      },
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(({ state }) => core.respond(201, { ride: state.rideId, charge: state.chargeId }))

/** Sends another request at each attempt, which the provider refuses as Stripe does: with 400. */
const refusedRideOf: RideOf = (core, charge) =>
  beginRide(core, 'refused-ride', { maxAttempts: 2 })
    .foreign('charge_created', {
      call: async ({ input, idempotencyKey, signal }) => {
        try {
          return await charge({ amount: input.amount, note: randomUUID() }, { idempotencyKey, signal })
        } catch (error) {
          throw statusOf(error) === 409 ? Object.assign(new Error('key reused'), { status: 400 }) : error
        }
      },
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      onError: ({ error }) => core.retryLater(error),
    })
    .finish(({ state }) => core.respond(201, { ride: state.rideId, charge: state.chargeId }))

function statusOf(error: unknown): number | null {
  return (error as { readonly status?: number }).status ?? null
}

/** The error of a second database that is busy, for which the engine tries the transaction again. */
const busy = () => Object.assign(new Error('the riders are busy'), { code: '40001', severity: 'ERROR' })

/**
 * Both ways are inserted at once, and the rider is looked up elsewhere at the same time. That fails at first, while the inserts
 * are under way: none of them may outlive the transaction that it belongs to.
 */
const parallelRideOf: RideOf = (core, charge) => {
  const asked = new Set<string>()
  const lookUp = async (keyId: string): Promise<void> => {
    if (asked.has(keyId)) return
    asked.add(keyId)
    throw busy()
  }
  return core
    .pawl<RideDatabase>()
    .pipeline<RideInput>({ name: 'parallel-ride', version: 1 })
    .local('ride_created', async ({ tx, input, scope, keyId }) => {
      const insert = (amount: number) =>
        tx
          .insertInto('rides')
          .values({ rider: scope, amount, key_id: keyId })
          .returning('id')
          .executeTakeFirstOrThrow()
      const [there, back] = await Promise.all([insert(input.amount), insert(0), lookUp(keyId)])
      return { rideId: there.id, backId: back.id }
    })
    .foreign('charge_created', {
      call: ({ input, idempotencyKey, signal }) =>
        charge({ amount: input.amount }, { idempotencyKey, signal }),
      settle: async ({ tx, state, result }) => {
        const settle = (id: string) =>
          tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', id).execute()
        await Promise.all([settle(state.rideId), settle(state.backId)])
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId })
      return core.respond(201, { ride: state.rideId, charge: state.chargeId })
    })
}

/** Commits by itself what it has written, hidden behind a comment, and ignores the error of the engine. */
const endingRideOf: RideOf = (core) =>
  core
    .pawl<RideDatabase>()
    .pipeline<RideInput>({ name: 'ending-ride', version: 1 })
    .local('ride_created', async ({ tx, input, scope, keyId }) => {
      await tx.insertInto('rides').values({ rider: scope, amount: input.amount, key_id: keyId }).execute()
      await sql`/* now */ COMMIT`.execute(tx).catch(() => {})
    })
    .finish(() => core.respond(201))

/** Two legs of two transactions' work each: the ride and its way back, then the charge and that it is for both. */
const rideInLegsOf: RideOf = (core, charge) =>
  beginRide(core, 'ride-in-legs', { commits: 'fewest' })
    .local('return_created', async ({ tx, scope, keyId }) => {
      await tx.insertInto('rides').values({ rider: scope, amount: 0, key_id: keyId }).execute()
    })
    .foreign('charge_created', {
      call: ({ input, idempotencyKey, signal }) =>
        charge({ amount: input.amount }, { idempotencyKey, signal }),
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .local('return_charged', async ({ tx, state, scope }) => {
      const charged = { return_charge_id: state.chargeId }
      await tx.updateTable('rides').set(charged).where('rider', '=', scope).execute()
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId })
      return core.respond(201, { ride: state.rideId, charge: state.chargeId })
    })

/** Rows travel with whatever is sent next, and the first phase does not mind if its own query fails. */
const writingRideOf: RideOf = (core, charge) =>
  core
    .pawl<RideDatabase>()
    .pipeline<RideInput>({ name: 'writing-ride', version: 1, commits: 'fewest' })
    .local('ride_created', async ({ tx, write, input, scope, keyId }) => {
      const rideId = randomUUID()
      const rides = tx.selectFrom('rides').select('id').where('rider', '=', scope)
      await rides.execute()
      write(tx.insertInto('rides').values({ id: rideId, rider: scope, amount: input.amount, key_id: keyId }))
      await rides.execute().catch(() => [])
      return { rideId }
    })
    .foreign('charge_created', {
      call: ({ input, idempotencyKey, signal }) =>
        charge({ amount: input.amount }, { idempotencyKey, signal }),
      settle: ({ tx, write, state, result }) => {
        write(tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId))
        return { chargeId: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(async ({ state, stage }) => {
      await stage('send_receipt', { rideId: state.rideId })
      return core.respond(201, { ride: state.rideId, charge: state.chargeId })
    })

/** The ride on which a variant's weakness shows. */
export const RIDES: Readonly<Record<NeededRide, RideOf>> = {
  keyed: rideOf,
  at_most_once: atMostOnceRideOf,
  queryable: queryableRideOf,
  two_calls: returnRideOf,
  parallel: parallelRideOf,
  ends_itself: endingRideOf,
  hasty: hastyRideOf,
  large_result: largeResultRideOf,
  refused: refusedRideOf,
  legs: rideInLegsOf,
  declaring_legs: atMostOnceInLegsOf,
  writes: writingRideOf,
}
