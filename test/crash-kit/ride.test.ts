import { describe, expect, test } from 'vitest'
import type { FaultName } from '../../packages/crash-kit/src/faults/faults.js'
import { amountOf, IS_DEEP } from '../support/amounts.js'
import { rideKit } from './ride-kit.js'

/** More races: `PAWL_RACES=2000 npm test -- crash-kit/ride.test`. */
const RACES = amountOf('races')

/**
 * Those that tests of single mechanisms do not have at every position. The example's own test has crashes, exceptions and
 * lost answers at every position of the same phases.
 */
const SOME: readonly FaultName[] = [
  'connectionKilled',
  'lostCommit',
  'freeze',
  'leaseExpiry',
  'slowProvider',
  'provider5xx',
  'serverCrash',
  'reaper',
  'expiry',
  'otherVersion',
]

// Other ways to send statements, second faults and other promises of the provider are in ride.deep.test.ts.
describe('any fault anywhere', async () => {
  const kit = rideKit()
  await kit.exhaustive(IS_DEEP ? {} : { faults: SOME })
  if (IS_DEEP) await kit.exhaustive({ faults: ['failover'] })
  await kit.races({ runs: RACES })
})

test('a kit inside a test runs its cases there, and counts them', async () => {
  const kit = rideKit()
  await kit.replay('crash@charge_created/call#1:after')
  expect(kit.casesRun).toBe(1)
  await kit.close()
})
