import { afterAll, describe, expect, test } from 'vitest'
import { startRideProcess } from '../support/ride-process.js'
import { expectRecovered, tracesWithoutCrash } from '../support/ride-recovery.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const pool = database.pool()
const positions = await new RideTrial(database).positions()
const oracle = await tracesWithoutCrash(new RideTrial(database), pool)

test('a process that nothing happens to leaves what the oracle left, and another replays it', async () => {
  const trial = new RideTrial(database)
  const { ended } = startRideProcess(trial, 'nowhere', 'SIGKILL')
  expect(await ended).toEqual({ said: 'completed', signal: null })
  await expectRecovered(trial, pool, oracle)
})

describe('a process killed by SIGKILL leaves a ride that another ends as if nothing had happened', () => {
  test.each(positions)('%s', async (at) => {
    const trial = new RideTrial(database)
    const { ended } = startRideProcess(trial, at, 'SIGKILL')
    expect(await ended).toEqual({ said: null, signal: 'SIGKILL' })
    await expectRecovered(trial, pool, oracle)
  })
})
