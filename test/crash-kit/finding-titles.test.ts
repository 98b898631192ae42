import { expect, test } from 'vitest'
import { titleOf } from '../../packages/crash-kit/src/finding/describe-position.js'
import { RIDE_SHAPE } from './ride-shape.js'

const TITLES: Readonly<Record<string, string>> = {
  crash: 'crash',
  lostCommitAck: "COMMIT's answer lost",
  'providerTimeout.after': 'provider time-out after it executed',
  leaseExpiry: 'lease over during the call',
  serializationFailure: 'serialization failure (40001)',
}
const titled = (...plan: readonly (readonly [attempt: number, fault: string, at: string])[]) =>
  titleOf(
    plan.map(([attempt, fault, at]) => ({ attempt, fault, at })),
    (fault) => TITLES[fault] ?? fault,
    RIDE_SHAPE,
  )

test('the title of a case says which faults strike, and where', () => {
  expect(titled([0, 'crash', 'charge_created/call#1:after'])).toBe(
    'crash after charge_created was called, before it was settled',
  )
  expect(
    titled([0, 'crash', 'charge_created/call#1:after'], [1, 'lostCommitAck', 'finished/commit#1:before']),
  ).toBe(
    "crash after charge_created was called, before it was settled, then COMMIT's answer lost in finished, during the recovery",
  )
  expect(titled([0, 'lostCommitAck', 'ride_created/commit#2:before'])).toBe(
    "COMMIT's answer lost in ride_created, the 2nd time",
  )
  expect(titled([0, 'serializationFailure', 'ride_created/commit#1:before'])).toBe(
    'serialization failure (40001) in ride_created, before COMMIT',
  )
  expect(titled([0, 'providerTimeout.after', 'charge_created/call#1:before'])).toBe(
    'provider time-out after it executed in the call of charge_created',
  )
  expect(titled([2, 'providerTimeout.after', 'charge_created/reconcile#1:before'])).toBe(
    'provider time-out after it executed when asked about charge_created, during the 2nd recovery',
  )
  expect(titled([1, 'crash', 'reserve/insert_key#1:after'])).toBe(
    'crash after the key was asked for again, during the recovery',
  )
  expect(titled([0, 'leaseExpiry', 'charge_created/call#1:before'])).toBe(
    'lease over during the call in charge_created',
  )
  expect(titled([0, 'lostCommitAck', 'reserve/insert_key#1:before'])).toBe(
    "COMMIT's answer lost when the key was reserved",
  )
  expect(titled([1, 'lostCommitAck', 'raise/raise_fence#2:before'])).toBe(
    "COMMIT's answer lost when the fence was raised the 2nd time, during the recovery",
  )
  expect(titled([0, 'lostCommitAck', 'ride_created/commit#1:after'])).toBe(
    "COMMIT's answer lost after ride_created committed, before charge_created was called",
  )
  expect(titled()).toBe('without a fault')
})
