import { describe, expect, test } from 'vitest'
import * as core from '@pawl/core'
import { findWeakness } from './find-weakness.js'
import { loadedPatches, loadUnbroken, loadVariant } from './load-variant.js'
import type { LoadedPatch } from './patch-source.js'
import { RIDES } from './rides.js'
import type { Search } from './variant.js'
import { VARIANTS } from './variants.js'
import { WRONG_RIDES } from './wrong-rides.js'

/** Fewer than the broken ones get: there is nothing to be found. */
const CONTROL_RACES = 8

const nameOf = ({ variant, file }: LoadedPatch): string => `${variant}: ${file}`

describe('the kit finds every wrong ride', () => {
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

// crash-kit/ride.test.ts searches the right engine with faults at every position.
describe('the kit finds nothing if nothing is wrong', () => {
  // Rides that send another request each time, or commit by themselves, are wrong whatever the engine does.
  const rightRides = Object.entries(RIDES).filter(([name]) => name !== 'refused' && name !== 'ends_itself')
  test.each(rightRides)('%s', async (_, rideOf) => {
    const search: Search = { by: 'races', actors: ['zombie', 'client', 'duplicate', 'completer'] }
    const { finding } = await findWeakness(await loadUnbroken(), rideOf, search, CONTROL_RACES)
    expect(finding?.message).toBeUndefined()
  })
})

test('the right engine, loaded beside broken ones, has none of their patches', async () => {
  const some = VARIANTS.filter(({ name }, at) => at % 6 === 0 || name === 'check-then-insert')
  for (const { name } of some) await loadVariant(name)
  const wanted = some.flatMap(({ name, replacements }) =>
    [...new Set(replacements.map(({ file }) => file))].map((file) => nameOf({ variant: name, file })),
  )
  // Each is there once: no module of the right engine has reported that it is patched.
  expect(loadedPatches().map(nameOf).toSorted()).toEqual(wanted.toSorted())
  const { core: withoutConstraint } = await loadVariant('check-then-insert')
  expect(core.migrationSql()).toContain('UNIQUE (scope, key)')
  expect(withoutConstraint.migrationSql()).not.toContain('UNIQUE (scope, key)')
})
