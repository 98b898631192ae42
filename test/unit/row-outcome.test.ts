import { expect, test } from 'vitest'
import { inFlightOutcome } from '../../packages/core/src/run/row-outcome.js'

test.each([
  [30_000, 1_000],
  [300, 300],
  [-5, 0],
  [null, 1_000],
])('a duplicate with %s ms of the lease left comes back in %s ms', (leaseLeftMs, retryAfterMs) => {
  expect(inFlightOutcome(leaseLeftMs, false)).toEqual({
    type: 'in_flight',
    retryAfterMs,
    leaseLeftMs,
    fencedOff: false,
  })
})
