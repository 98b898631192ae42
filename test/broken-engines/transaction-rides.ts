import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { answerTo, beginRide, type RideDatabase, type RideInput, type RideOf } from './ride-of.js'

/** The error of a second database that is busy, for which the engine tries the transaction again. */
const busy = () => Object.assign(new Error('the riders are busy'), { code: '40001', severity: 'ERROR' })

/**
 * Both ways are inserted at once, and the rider is looked up elsewhere at the same time. That fails at first, while the inserts
 * are under way: none of them may outlive the transaction that it belongs to.
 */
export const parallelRideOf: RideOf = (core, charge) => {
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
export const endingRideOf: RideOf = (core) =>
  core
    .pawl<RideDatabase>()
    .pipeline<RideInput>({ name: 'ending-ride', version: 1 })
    .local('ride_created', async ({ tx, input, scope, keyId }) => {
      await tx.insertInto('rides').values({ rider: scope, amount: input.amount, key_id: keyId }).execute()
      await sql`/* now */ COMMIT`.execute(tx).catch(() => {})
    })
    .finish(() => core.respond(201))

/** Two legs of two transactions' work each: the ride and its way back, then the charge and that it is for both. */
export const rideInLegsOf: RideOf = (core, charge) =>
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
export const writingRideOf: RideOf = (core, charge) =>
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
