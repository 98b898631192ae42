import { afterAll, describe, expect, test } from 'vitest'
import { expectRecovered, tracesWithoutCrash } from '../support/ride-recovery.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

// One database for all positions: every trial has a scope of its own, so that each also runs beside the others' rows.
const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const pool = database.pool()
const positions = await new RideTrial(database).positions()
const oracle = await tracesWithoutCrash(new RideTrial(database), pool)

test('the positions of a ride are every statement and the call, before and after', () => {
  const before = positions.filter((position) => position.endsWith(':before'))
  expect(before.map((position) => position.replace('#1:before', ''))).toEqual([
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
  ])
  expect(positions).toEqual(before.flatMap((position) => [position, position.replace(':before', ':after')]))
})

describe('an engine that dies leaves a ride that another ends as if nothing had happened', () => {
  test.each(positions)('%s', async (at) => {
    const trial = new RideTrial(database)
    expect(await trial.dieAt(at)).toBe('died')
    // Nothing is there before the INSERT, and nothing is left to do after the last COMMIT.
    const left = at === positions[0] ? undefined : at === positions.at(-1) ? 'finished' : 'running'
    expect((await trial.row())?.status).toBe(left)
    await expectRecovered(trial, pool, oracle)
  })
})
