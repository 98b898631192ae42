import { afterAll, describe, expect, test } from 'vitest'
import { expectRecovered, tracesWithoutCrash } from '../support/ride-recovery.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideOf, createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

// All positions share one database: every trial has a scope of its own, and so also runs beside the others' rows.
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
  'charge_created/insert_effect',
  'charge_created/advance_key',
  'charge_created/commit',
  'finished/begin',
  'finished/insert_staged_job',
  'finished/finish_key',
  'finished/commit',
]

test('a ride has a position before and after every statement and the call', async () => {
  const both = STEPS.flatMap((step) => [`${step}#1:before`, `${step}#1:after`])
  expect(await trialOf(false).positions()).toEqual(both)
})

test('there is no position between statements that travel together', async () => {
  const sentAlong = /(begin|advance_key|insert_effect|insert_staged_job|finish_key)#1:after$/
  const together = (await trialOf(false).positions()).filter((position) => !sentAlong.test(position))
  expect(await trialOf(true).positions()).toEqual(together)
})

// Here, statements go one at a time; crash-kit/ride.test.ts crashes the same ride where some travel together.
describe('an engine that dies leaves a ride that another finishes as if nothing had happened', async () => {
  const positions = await trialOf(false).positions()

  test.each(positions)('%s', async (at) => {
    const trial = trialOf(false)
    expect(await trial.dieAt(at)).toBe('died')
    // There is nothing before the INSERT, and nothing left to do after the last COMMIT.
    const left = at === positions[0] ? undefined : at === positions.at(-1) ? 'finished' : 'running'
    expect((await trial.row())?.status).toBe(left)
    await expectRecovered(trial, pool, oracle)
  })
})
