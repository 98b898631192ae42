import { describe, expect, test } from 'vitest'
import { amountOf } from '../support/amounts.js'
import { rideKit } from './ride-kit.js'

/** More races: `PAWL_RACES=2000 npm test -- crash-kit/ride`. */
const RACES = amountOf('races')

// Other ways to send statements, second faults and other promises of the provider are in ride.deep.test.ts.
describe('any fault anywhere', async () => {
  const kit = rideKit()
  await kit.exhaustive()
  await kit.exhaustive({ faults: ['failover'] })
  await kit.races({ runs: RACES })
})

test('a kit inside of a test runs there, and counts its cases', async () => {
  const kit = rideKit()
  await kit.replay('crash@charge_created/call#1:after')
  expect(kit.casesRun).toBe(1)
  await kit.close()
})
