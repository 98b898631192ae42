import { afterAll, describe, expect, test, vi } from 'vitest'
import { findWeakness } from './find-weakness.js'
import { loadUnbroken, loadVariant } from './load-variant.js'
import { RIDES } from './rides.js'
import type { Search } from './variant.js'
import { VARIANTS } from './variants.js'
import { WRONG_RIDES } from './wrong-rides.js'

/** A weakness that only a race shows takes hundreds of schedules. */
vi.setConfig({ testTimeout: 300_000 })

/** Fewer than the broken ones get: there is nothing to be found. */
const CONTROL_RACES = 8

const found: string[] = []
afterAll(() => console.log(found.join('\n')))

describe('the kit finds every broken engine', () => {
  test.each(VARIANTS)('$name: $broken', async ({ name, ride, search, expected }) => {
    const { finding, cases } = await findWeakness(await loadVariant(name), RIDES[ride], search)
    const rules = finding?.violations.map(({ rule }) => rule) ?? []
    expect(rules).toSatisfy(
      (seen: string[]) => expected.some((rule) => seen.includes(rule)),
      finding?.message,
    )
    found.push(`${name}: ${[...new Set(rules)].join(', ')}, found by case ${Math.max(cases, 1)}`)
  })
})

describe('and every wrong ride', () => {
  test.each(WRONG_RIDES)('$name: $wrong', async ({ rideOf, expected }) => {
    const search: Search = { by: 'faults', faults: ['crash'], depth: 1 }
    const { finding } = await findWeakness(await loadUnbroken(), rideOf, search)
    const rules = finding?.violations.map(({ rule }) => rule) ?? []
    expect(rules).toSatisfy(
      (seen: string[]) => expected.some((rule) => seen.includes(rule)),
      finding?.message,
    )
  })
})

// With faults at every position, the right engine is searched in crash-kit/ride.test.ts.
describe('and nothing where nothing is wrong', () => {
  // Rides that send another request each time, or commit by themselves, are wrong, whatever the engine makes of them.
  const rightRides = Object.entries(RIDES).filter(([name]) => name !== 'refused' && name !== 'ends_itself')
  test.each(rightRides)('%s', async (_, rideOf) => {
    const search: Search = { by: 'races', actors: ['zombie', 'client', 'duplicate', 'completer'] }
    const { finding } = await findWeakness(await loadUnbroken(), rideOf, search, CONTROL_RACES)
    expect(finding?.message).toBeUndefined()
  })
})
