import fc from 'fast-check'
import { expect, test } from 'vitest'
import { SEED } from '../../support/amounts.js'
import { assertProperty } from './assert-property.js'

const small = fc.property(fc.nat(), (number) => {
  expect(number).toBeLessThan(10)
})

test('a property that does not hold reports the counterexample, the reason, and how to see it again', async () => {
  const failure = await assertProperty(small).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(Error)
  const { message, cause } = failure as Error
  expect(message).toContain('Counterexample: [10]')
  expect(message).toContain('Why: expected 10 to be less than 10')
  expect(message).toMatch(new RegExp(`Seed ${SEED}, path [\\d:]+\\.`))
  expect(message).toContain(`PAWL_SEED=${SEED} npm test -- property/support/assert-property`)
  expect(cause).toBeInstanceOf(Error)
})

test('a property that holds reports nothing, whether it is asynchronous or not', async () => {
  await assertProperty(fc.property(fc.nat(), () => {}))
  await assertProperty(fc.asyncProperty(fc.nat(), async () => {}))
})

test('an asynchronous property can fail as well', async () => {
  const never = fc.asyncProperty(fc.nat(), async () => {
    throw new Error('never')
  })
  await expect(assertProperty(never)).rejects.toThrow('Why: never')
})

test('a counterexample that is too long to read is cut', async () => {
  const long = fc.property(fc.constant('x'.repeat(100_000)), () => false)
  const failure = await assertProperty(long).catch((error: unknown) => error)
  expect((failure as Error).message.length).toBeLessThan(5_000)
  expect((failure as Error).message).toContain('… (100004 characters)')
})
