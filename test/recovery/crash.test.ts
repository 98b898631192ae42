import { afterAll, describe, expect, test } from 'vitest'
import { expectRecovered, tracesWithoutCrash } from '../support/ride-recovery.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideOf, createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

// One database for all positions: every trial has a scope of its own, so that each also runs beside the others' rows.
const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const pool = database.pool()
const oracle = await tracesWithoutCrash(new RideTrial(database), pool)
const trialOf = (pipelining: boolean) => new RideTrial(database, createRideOf, { pipelining })

const STEPS = [
  'reserve/insert_key',
  'ride_created/begin',
  'ride_created/query',
  'ride_created/advance_key',
  'ride_created/commit',
  'charge_created/call',
  'charge_created/begin',
  'charge_created/query',
  'charge_created/advance_key',
  'charge_created/commit',
  'finished/begin',
  'finished/insert_staged_job',
  'finished/finish_key',
  'finished/commit',
]

test('the positions of a ride are every statement and the call, before and after', async () => {
  const both = STEPS.flatMap((step) => [`${step}#1:before`, `${step}#1:after`])
  expect(await trialOf(false).positions()).toEqual(both)
})

test('between statements that travel together, there is none', async () => {
  const sentAlong = /(begin|advance_key|insert_staged_job|finish_key)#1:after$/
  const together = (await trialOf(false).positions()).filter((position) => !sentAlong.test(position))
  expect(await trialOf(true).positions()).toEqual(together)
})

// One statement at a time: where some travel together, crash-kit/ride.test.ts crashes the same ride.
describe('an engine that dies leaves a ride that another ends as if nothing had happened', async () => {
  const positions = await trialOf(false).positions()

  test.each(positions)('%s', async (at) => {
    const trial = trialOf(false)
    expect(await trial.dieAt(at)).toBe('died')
    // Nothing is there before the INSERT, and nothing is left to do after the last COMMIT.
    const left = at === positions[0] ? undefined : at === positions.at(-1) ? 'finished' : 'running'
    expect((await trial.row())?.status).toBe(left)
    await expectRecovered(trial, pool, oracle)
  })
})
