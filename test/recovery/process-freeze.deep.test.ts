import { afterAll, describe, expect, test } from 'vitest'
import { startRideProcess, stopped } from '../support/ride-process.js'
import { expectRecovered, tracesWithoutCrash } from '../support/ride-recovery.js'
import { RideTrial } from '../support/ride-trial.js'
import { createRideTables } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const pool = database.pool()
const oracle = await tracesWithoutCrash(new RideTrial(database), pool)

// These are positions where the process holds no row that the other needs; at the rest, the server's time-outs end it
// (zombie.test.ts). crash-kit/ride.test.ts freezes a ride within its process at every position.
// Shows I5.
describe('a process frozen by SIGSTOP wakes up after another has finished, and leaves nothing of its own', () => {
  test.each([
    ['with its key just reserved', 'reserve/insert_key#1:after', 1],
    // No fence keeps a zombie from sending, but the provider already knows the key.
    ['before it sends', 'charge_created/call#1:before', 2],
    ['before it settles', 'charge_created/query#1:before', 2],
  ])('%s', async (_, at, requests) => {
    const trial = new RideTrial(database)
    const { child, ended } = startRideProcess(trial, at, 'SIGSTOP')
    await stopped(child)
    await expectRecovered(trial, pool, oracle)
    const before = await trial.row()
    child.kill('SIGCONT')
    expect(await ended).toEqual({ said: 'replayed', signal: null })
    expect(await trial.row()).toEqual(before)
    await expectRecovered(trial, pool, oracle)
    expect(await trial.provider.requests()).toHaveLength(requests)
  })
})
