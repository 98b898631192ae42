import { type Outcome, type Pipeline, type PipelineSettings, respond } from '@pawl/core'
import { afterAll, describe, expect, test } from 'vitest'
import { FencedOff } from '../../packages/core/src/run/fenced-off.js'
import { atMostOnceRideOf, skippedRide } from '../support/guarded-rides.js'
import type { Fault, Provider } from '../support/provider.js'
import { tracesWithoutCrash } from '../support/ride-recovery.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideOf, createRideTables, type Database, pipeline, type RideInput } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { engineWithStops } from '../support/stops.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

interface Case {
  /** What the zombie is about to write when it freezes. */
  readonly write: string
  /** Where the new holder is when the zombie wakes up, which is at the same recovery point. */
  readonly other: string
  readonly pipelineOf?: (provider: Provider) => Pipeline<Database, RideInput>
  /** What the zombie's call met. */
  readonly fault?: Fault
  readonly zombieDefaults?: PipelineSettings
}

const CASES: Case[] = [
  { write: 'ride_created/advance_key#1:before', other: 'ride_created/begin#1:before' },
  { write: 'charge_created/advance_key#1:before', other: 'charge_created/call#1:before' },
  { write: 'finished/finish_key#1:before', other: 'finished/begin#1:before' },
  {
    write: 'ride_created/skip_phase#1:before',
    other: 'ride_created/skip_phase#1:before',
    pipelineOf: skippedRide,
  },
  {
    write: 'charge_created/declare_call#1:before',
    other: 'charge_created/declare_call#1:before',
    pipelineOf: atMostOnceRideOf,
  },
  // onError returns a final response, in a transaction of its own.
  { write: 'charge_created/finish_key#1:before', other: 'charge_created/call#1:before', fault: 'declined' },
  { write: 'give_back/give_back_key#1:before', other: 'charge_created/call#1:before', fault: 'refuse_500' },
  // The call has returned, and its result is about to be saved.
  {
    write: 'give_back/give_back_key#1:before',
    other: 'charge_created/call#1:before',
    pipelineOf: rideOfOneFailedSettle,
  },
  {
    write: 'give_back/mark_stuck#1:before',
    other: 'charge_created/call#1:before',
    fault: 'refuse_500',
    zombieDefaults: { maxAgeMs: 1 },
  },
  {
    write: 'renewal/renew_leases#1:before',
    other: 'charge_created/call#1:before',
    fault: 'hold_then_execute',
    zombieDefaults: { leaseMs: 600 },
  },
]

let settles = 0

/** Three rides settle: the undisturbed one, the zombie's and the new holder's. The second settle fails. */
function rideOfOneFailedSettle(provider: Provider): Pipeline<Database, RideInput> {
  return pipeline<RideInput>({ name: 'unsettled-ride', version: 1 })
    .foreign('charge_created', {
      call: ({ input, idempotencyKey, signal }) => provider.charge(input.amount, { idempotencyKey, signal }),
      settle: () => {
        if (++settles === 2) throw new Error('settle failed')
      },
    })
    .finish(() => respond(201))
}

function completed(outcome: Outcome): Extract<Outcome, { type: 'completed' }> {
  if (outcome.type !== 'completed') throw outcome
  return outcome
}

// Recovery point and status are as the zombie left them, so only fence and holder show that the key is no longer its own.
// Shows I5.
describe('a zombie whose key has a new holder at the same recovery point writes nothing', () => {
  test.each(CASES)('$write', async ({ write, other, pipelineOf = createRideOf, fault, zombieDefaults }) => {
    const fencedOff = hear('pawl:fenced_off')
    const failed = hear('pawl:phase_failed')
    const undisturbed = new RideTrial(database, pipelineOf)
    // The provider gives everyone who asks again the same answer.
    if (fault === 'declined') await undisturbed.provider.willMeet(fault)
    const oracle = await tracesWithoutCrash(undisturbed, database.pool())
    const trial = new RideTrial(database, pipelineOf)
    if (fault !== undefined) await trial.provider.willMeet(fault)
    const pool = database.pool()
    const zombie = engineWithStops(trial.options(pool, { defaults: zombieDefaults ?? {} }), write)
    const zombieEnd = trial.execute(zombie.engine)
    await zombie.stops[0].reached
    await database.expireLeases()
    const holder = engineWithStops(trial.options(), other)
    const holderEnd = trial.execute(holder.engine)
    await holder.stops[0].reached
    const before = await trial.row()

    zombie.stops[0].go()
    expect(await zombieEnd).toMatchObject({ type: 'in_flight', fencedOff: true })
    expect(fencedOff).toMatchObject([{ fence: 1 }])
    expect(before).toMatchObject({ fence: '2', status: 'running' })
    expect(await trial.row()).toEqual(before)
    // This is nobody's error, and leaves no connection behind.
    expect(failed.filter(({ error }) => error instanceof FencedOff)).toEqual([])
    expect(pool.idleCount).toBe(pool.totalCount)

    holder.stops[0].go()
    const { response } = completed(await holderEnd)
    expect(await trial.traces(response)).toEqual(oracle)
    await Promise.all([zombie.engine.close(), holder.engine.close()])
  })
})
