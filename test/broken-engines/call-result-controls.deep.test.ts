import { expect, test } from 'vitest'
import { findWeakness } from './find-weakness.js'
import { loadUnbroken } from './load-variant.js'
import { RIDES } from './rides.js'
import { variantOf } from './variants.js'

/** Runs the searches that find these engines on the right one: what they find is the fault of the engine, not of the ride. */
test.each(['no-status-is-an-answer', 'large-result-dropped'])(
  'the search that finds %s finds nothing on the right engine',
  async (name) => {
    const { ride, search } = variantOf(name)
    const { finding } = await findWeakness(await loadUnbroken(), RIDES[ride], search)
    expect(finding?.message).toBeUndefined()
  },
)

test('a ride that is refused at each attempt is wrong on the right engine as well, but there it ends', async () => {
  const { ride, search } = variantOf('refusal-never-counts')
  const { finding } = await findWeakness(await loadUnbroken(), RIDES[ride], search)
  const rules = finding?.violations.map(({ rule }) => rule)
  expect(rules).toBeDefined()
  expect(rules).not.toContain('L1')
})
