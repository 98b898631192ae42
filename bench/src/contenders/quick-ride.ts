import { randomUUID } from 'node:crypto'
import { type Given, pawl, respond, retryLater } from '@pawl/core'
import { CREATED, RECEIPT_JOB, type RideInput } from '../business.js'
import type { Charges } from '../provider/charge.js'
import type { Database } from './database.js'

const { pipeline, query } = pawl<Database>()

type NewRide = {
  readonly id: string
  readonly scope: string
  readonly origin: string
  readonly target: string
  readonly amount: number
}

const insertRide = query((db, given: Given<NewRide>) =>
  db.insertInto('rides').values({
    id: given.id,
    scope: given.scope,
    origin: given.origin,
    target: given.target,
    amount: given.amount,
  }),
)
const setCharge = query((db, given: Given<{ ride: string; charge: string }>) =>
  db.updateTable('rides').set({ charge_id: given.charge }).where('id', '=', given.ride),
)

/**
 * The ride as the guide's pages on speed advise: queries are compiled once, and rows travel with the commit. It makes its id
 * itself, so that no phase has to wait for an answer of the database.
 */
export const quickRide = (charges: Charges) =>
  pipeline<RideInput>({ name: 'create-ride', version: 1 })
    .local('ride_created', ({ tx, write, input, scope }) => {
      const ride = randomUUID()
      write(insertRide(tx, { id: ride, scope, ...input }))
      return { ride }
    })

    .foreign('charge_created', {
      call: ({ input, state, idempotencyKey, signal }) =>
        charges.charge({ amount: input.amount, ride: state.ride }, idempotencyKey, signal),
      settle: ({ tx, write, state, result }) => {
        write(setCharge(tx, { ride: state.ride, charge: result.id }))
        return { charge: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => retryLater(error),
    })

    .finish(async ({ state, stage }) => {
      await stage(RECEIPT_JOB, { ride: state.ride })
      return respond(CREATED, { ride: state.ride, charge: state.charge })
    })
