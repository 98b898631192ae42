import { expect, test, vi } from 'vitest'
import { findWeakness } from './find-weakness.js'
import { loadUnbroken } from './load-variant.js'
import { RIDES } from './rides.js'
import { SERVER_VARIANTS } from './server-variants.js'

vi.setConfig({ testTimeout: 120_000 })

/** Runs the searches that find these engines on the right one: what they find is the fault of the engine, not of the ride. */
test.each(SERVER_VARIANTS)(
  'the search that finds $name finds nothing on the right engine',
  async ({ ride, search }) => {
    const { finding, cases } = await findWeakness(await loadUnbroken(), RIDES[ride], search)
    expect(finding?.message).toBeUndefined()
    expect(cases).toBeGreaterThan(1)
  },
)
