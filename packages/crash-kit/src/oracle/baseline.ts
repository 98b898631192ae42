import type { JsonValue } from '@pawl/core'
import { KitError } from '../kit-error.js'
import { nameOf, type Path, placeOf } from './json-path.js'
import { differentIdentities } from './same-identities.js'
import { shown } from './same-json.js'
import { isTime } from './times.js'
import { type Leaf, type RunTimes, type Volatility, volatilityOf, withoutIds } from './volatile-values.js'
import { type Scalar, walkTogether } from './walk-together.js'

/** What other runs are compared with: a clean run, and which of its values are new in each run. */
export interface Baseline {
  readonly clean: JsonValue
  readonly volatility: Volatility
  readonly isIgnored: (path: Path) => boolean
}

/** Makes a baseline from two clean runs of the same shape. */
export function baselineOf(
  one: JsonValue,
  other: JsonValue,
  isIgnored: (path: Path) => boolean,
  times: RunTimes,
): Baseline {
  const { leaves, shapes } = walkTogether(one, other, isIgnored)
  const [shape] = shapes
  if (shape !== undefined) {
    throw new KitError(
      'PAWL_KIT_INVALID_OPTION',
      `crashKit: two runs without faults already differ, at ${placeOf(shape.path)}: ${shown(shape.one)} and ` +
        `${shown(shape.other)}. Make the pipeline do the same each time, or leave it out with ` +
        `ignore: ['${nameOf(shape.path)}'].`,
    )
  }
  return { clean: one, volatility: volatilityOf(leaves, times), isIgnored }
}

/** Describes where a run differs from the clean one. Paths that `isIgnored` are left out as well. */
export function differencesFrom(
  baseline: Baseline,
  run: JsonValue,
  isIgnored: (path: Path) => boolean = () => false,
): string[] {
  const { clean, volatility } = baseline
  const isLeftOut = (path: Path) => baseline.isIgnored(path) || isIgnored(path)
  const { leaves, shapes } = walkTogether(clean, run, isLeftOut)
  const here = new Map(leaves.map(({ path, other }) => [placeOf(path), other]))
  const present = volatility.leaves.flatMap((leaf) => {
    const value = here.get(leaf.place)
    return value === undefined ? [] : [{ ...leaf, here: value }]
  })
  const ids = volatility.ids.flatMap(({ place }) => {
    const value = here.get(place)
    return typeof value === 'string' ? [[place, value] as const] : []
  })
  const renewed = present.filter(({ place }) => volatility.expectations.get(place)?.kind === 'identity')
  return [
    ...shapes.map(({ path, one, other }) => differs(placeOf(path), one, other)),
    ...present.flatMap((leaf) =>
      isMet(leaf, leaf.here, volatility, ids) ? [] : [differs(leaf.place, leaf.one, leaf.here)],
    ),
    ...differentIdentities(renewed),
  ]
}

function isMet(
  { place, one, other }: Leaf,
  here: Scalar,
  { expectations }: Volatility,
  ids: readonly (readonly [place: string, text: string])[],
): boolean {
  const expected = expectations.get(place) ?? { kind: 'same' }
  switch (expected.kind) {
    case 'same':
      return here === one
    case 'time':
      return isTime(here)
    case 'template':
      return typeof here === 'string' && withoutIds(here, ids) === expected.template
    case 'identity':
      // A value that was never set is not an id.
      return kindOf(here) === kindOf(one) || kindOf(here) === kindOf(other)
  }
}

function kindOf(value: Scalar): string {
  return value === null ? 'null' : typeof value
}

function differs(place: string, clean: JsonValue | undefined, here: JsonValue | undefined): string {
  return `${place}: the clean run has ${shown(clean)}, this run has ${shown(here)}`
}
