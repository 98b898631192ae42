import { expect, test } from 'vitest'
import { cleanRunOf } from '../../packages/crash-kit/src/oracle/clean-run.js'
import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import { cleanRide, crashedRide, RIDES } from './ride-histories.js'

const clean = cleanRunOf(cleanRide(1).build(), cleanRide(2).build(), [])

test('a run without a fault breaks no rule', () => {
  expect(judge(cleanRide().build(), RIDES, null)).toEqual([])
  expect(judge(cleanRide(3).build(), RIDES, clean)).toEqual([])
})

test('a crash after the charge, and its recovery, break no rule', () => {
  expect(judge(crashedRide().build(), RIDES, null)).toEqual([])
  expect(judge(crashedRide().build(), RIDES, clean)).toEqual([])
})
