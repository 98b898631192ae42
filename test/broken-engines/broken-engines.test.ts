import { afterAll, describe, expect, test, vi } from 'vitest'
import * as core from '@pawl/core'
import { IS_DEEP } from '../support/amounts.js'
import { findWeakness } from './find-weakness.js'
import { loadedPatches, loadUnbroken, loadVariant } from './load-variant.js'
import type { LoadedPatch } from './patch-source.js'
import { RIDES } from './rides.js'
import type { Search } from './variant.js'
import { VARIANTS } from './variants.js'
import { WRONG_RIDES } from './wrong-rides.js'

/** A weakness that only a race shows takes hundreds of schedules. */
vi.setConfig({ testTimeout: 300_000 })

/** Fewer than the broken ones get: there is nothing to be found. */
const CONTROL_RACES = 8

const nameOf = ({ variant, file }: LoadedPatch): string => `${variant}: ${file}`

const found: string[] = []
afterAll(() => console.log(found.join('\n')))

// What only races show takes the kit up to hundreds of them: deep only. That each of these mechanisms is there, npm test sees
// where nothing is left to chance: reserve/stale-reader, reserve/concurrency, recovery/zombie-at-same-point, completer.
const SEARCHED = VARIANTS.filter(({ search }) => IS_DEEP || search.by !== 'races')

describe('the kit finds every broken engine', () => {
  test.each(SEARCHED)('$name: $broken', async ({ name, ride, search, expected }) => {
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

test('the right engine beside them has none of their patches', async () => {
  for (const { name } of VARIANTS) await loadVariant(name)
  const wanted = VARIANTS.flatMap(({ name, replacements }) =>
    [...new Set(replacements.map(({ file }) => file))].map((file) => nameOf({ variant: name, file })),
  )
  // Each once: no module of the right engine has said that it is a patched one.
  expect(loadedPatches().map(nameOf).toSorted()).toEqual(wanted.toSorted())
  const { core: withoutConstraint } = await loadVariant('check-then-insert')
  expect(core.migrationSql()).toContain('UNIQUE (scope, key)')
  expect(withoutConstraint.migrationSql()).not.toContain('UNIQUE (scope, key)')
})
