import { randomUUID } from 'node:crypto'
import { answerTo, beginRide, type RideDatabase, type RideInput, type RideOf } from './ride-of.js'

/** A ride as somebody who has not understood phases might write it. The engine that runs it is right. */
export interface WrongRide {
  readonly name: string
  readonly wrong: string
  readonly rideOf: RideOf
  /** What provokes it. */
  readonly foundBy: string
  /** Rules, of which at least one has to be broken. */
  readonly expected: readonly string[]
}

/** Charges first and writes the ride afterwards, in one local phase. */
const chargeBeforeInsert: RideOf = (core, charge) =>
  core
    .pawl<RideDatabase>()
    .pipeline<RideInput>({ name: 'charge-before-insert', version: 1 })
    .local('ride_created', async ({ tx, input, scope, keyId }) => {
      const { id } = await charge({ amount: input.amount }, { idempotencyKey: keyId })
      const ride = await tx
        .insertInto('rides')
        .values({ rider: scope, amount: input.amount, charge_id: id, key_id: keyId })
        .returning('id')
        .executeTakeFirstOrThrow()
      return { rideId: ride.id, chargeId: id }
    })
    .finish(({ state }) => core.respond(201, { ride: state.rideId, charge: state.chargeId }))

/** Charges in a local phase, while its transaction is open. */
const chargeInTransaction: RideOf = (core, charge) =>
  beginRide(core, 'charge-in-transaction')
    .local('charge_created', async ({ tx, input, state, keyId }) => {
      await tx
        .updateTable('rides')
        .set({ charge_id: 'to be charged' })
        .where('id', '=', state.rideId)
        .execute()
      const { id } = await charge({ amount: input.amount }, { idempotencyKey: keyId })
      await tx.updateTable('rides').set({ charge_id: id }).where('id', '=', state.rideId).execute()
      return { chargeId: id }
    })
    .finish(({ state }) => core.respond(201, { ride: state.rideId, charge: state.chargeId }))

/** The fare and the tip in one call. */
const secondCall: RideOf = (core, charge) =>
  beginRide(core, 'second-call')
    .foreign('charge_created', {
      call: async ({ input, idempotencyKey, signal }) => {
        const fare = await charge({ amount: input.amount }, { idempotencyKey, signal })
        await charge({ amount: 100, note: 'tip' }, { idempotencyKey: `${idempotencyKey}-tip`, signal })
        return fare
      },
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(({ state }) => core.respond(201, { ride: state.rideId, charge: state.chargeId }))

/** Keeps the ride's id in a variable, where a process that takes over does not find it. */
const carriedInMemory: RideOf = (core, charge) => {
  let rideId: string | null = null
  return core
    .pawl<RideDatabase>()
    .pipeline<RideInput>({ name: 'carried-in-memory', version: 1 })
    .local('ride_created', async ({ tx, input, scope, keyId }) => {
      const ride = await tx
        .insertInto('rides')
        .values({ rider: scope, amount: input.amount, key_id: keyId })
        .returning('id')
        .executeTakeFirstOrThrow()
      rideId = ride.id
    })
    .foreign('charge_created', {
      call: ({ input, idempotencyKey, signal }) =>
        charge({ amount: input.amount }, { idempotencyKey, signal }),
      settle: async ({ tx, keyId, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('key_id', '=', keyId).execute()
        return { chargeId: result.id }
      },
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(({ state }) => core.respond(201, { ride: rideId, charge: state.chargeId }))
}

/** Sends a request that is another one at every attempt, under the same provider key. */
const requestThatDiffers: RideOf = (core, charge) =>
  beginRide(core, 'request-that-differs')
    .foreign('charge_created', {
      call: ({ input, idempotencyKey, signal }) =>
        charge({ amount: input.amount, note: randomUUID() }, { idempotencyKey, signal }),
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(({ state }) => core.respond(201, { ride: state.rideId, charge: state.chargeId }))

/** Declares that the provider deduplicates, and does not send it the key. */
const keyNotSent: RideOf = (core, charge) =>
  beginRide(core, 'key-not-sent')
    .foreign('charge_created', {
      call: ({ input, signal }) => charge({ amount: input.amount }, { signal }),
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
        return { chargeId: result.id }
      },
      onError: ({ error }) => answerTo(core, error),
    })
    .finish(({ state }) => core.respond(201, { ride: state.rideId, charge: state.chargeId }))

export const WRONG_RIDES: readonly WrongRide[] = [
  {
    name: 'charge-before-insert',
    wrong: 'The charge is made in a local phase, before the row that is to record it.',
    rideOf: chargeBeforeInsert,
    foundBy:
      'No fault: the clean run, since the request comes while the transaction of ride_created is open. With ' +
      'strict: false also a crash at ride_created/query#1:before: charged, and no row says so.',
    expected: ['lint'],
  },
  {
    name: 'charge-in-transaction',
    wrong: 'The charge is made in a local phase, between two updates of its open transaction.',
    rideOf: chargeInTransaction,
    foundBy:
      'No fault: the clean run, since the request comes while the transaction of charge_created is open. With ' +
      'strict: false also a crash at charge_created/query#2:before: charged, and no row says so.',
    expected: ['lint'],
  },
  {
    name: 'second-call',
    wrong: 'One call makes two charges, the fare and the tip.',
    rideOf: secondCall,
    foundBy:
      'No fault: the clean run, since two requests come in one call. With strict: false also a provider that fails the ' +
      'second request: the first one is executed, and the phase is not.',
    expected: ['lint'],
  },
  {
    name: 'carried-in-memory',
    wrong: "The ride's id is kept in a variable from the first phase to the last.",
    rideOf: carriedInMemory,
    foundBy:
      'A crash anywhere between ride_created/commit#1:after and finished/finish_key#1:before, and a recovery with a ' +
      'new pipeline: the response has no ride.',
    expected: ['oracle', 'lint'],
  },
  {
    name: 'request-that-differs',
    wrong: 'The request to the provider has a random part, so that no two attempts are alike.',
    rideOf: requestThatDiffers,
    foundBy:
      'Any second call: a crash at charge_created/call#1:after, or a provider that executes and does not answer. The same ' +
      'provider key comes with another body, which the provider refuses.',
    expected: ['lint'],
  },
  {
    name: 'key-not-sent',
    wrong: 'The provider is not given the key by which it would recognize a repetition.',
    rideOf: keyNotSent,
    foundBy: 'Any second call, such as after a crash at charge_created/call#1:after: charged twice.',
    expected: ['lint', 'I2'],
  },
]
