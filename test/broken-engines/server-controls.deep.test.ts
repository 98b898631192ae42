import { expect, test, vi } from 'vitest'
import { findWeakness } from './find-weakness.js'
import { loadUnbroken } from './load-variant.js'
import { RIDES } from './rides.js'
import { SERVER_VARIANTS } from './server-variants.js'

vi.setConfig({ testTimeout: 120_000 })

/** The searches that find these engines, on the right one: what they find is the engine's, and not the ride's. */
test.each(SERVER_VARIANTS)(
  'where $name is found, nothing is on the right engine',
  async ({ ride, search }) => {
    const { finding, cases } = await findWeakness(await loadUnbroken(), RIDES[ride], search)
    expect(finding?.message).toBeUndefined()
    expect(cases).toBeGreaterThan(1)
  },
)
