import { expect, test } from 'vitest'
import { findWeakness } from './find-weakness.js'
import { loadUnbroken } from './load-variant.js'
import { RIDES } from './rides.js'
import { variantOf } from './variants.js'

/** The searches that find these engines, on the right one: what they find is the engine's, and not the ride's. */
test.each(['no-status-is-an-answer', 'large-result-dropped'])(
  'where %s is found, nothing is on the right engine',
  async (name) => {
    const { ride, search } = variantOf(name)
    const { finding } = await findWeakness(await loadUnbroken(), RIDES[ride], search)
    expect(finding?.message).toBeUndefined()
  },
)

test('a ride that is refused at each attempt is wrong on the right engine, too; but there it comes to an end', async () => {
  const { ride, search } = variantOf('refusal-never-counts')
  const { finding } = await findWeakness(await loadUnbroken(), RIDES[ride], search)
  const rules = finding?.violations.map(({ rule }) => rule)
  expect(rules).toBeDefined()
  expect(rules).not.toContain('L1')
})
