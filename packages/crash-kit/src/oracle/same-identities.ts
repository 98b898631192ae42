import { MIN_ID_LENGTH } from '../limits.js'
import { shown } from './same-json.js'
import type { Leaf } from './volatile-values.js'
import type { Scalar } from './walk-together.js'

/** A value that is new in each run, and what another run has in its place. */
export interface Renewed extends Leaf {
  readonly here: Scalar
}

/**
 * Returns where values that are new in each run are not equal to each other in the same places as in the clean run. A number and its
 * text count as equal, since drivers return large integers as text.
 */
export function differentIdentities(renewed: readonly Renewed[]): string[] {
  const classes = new Map<string, Renewed[]>()
  for (const leaf of renewed.filter(isIdentity)) {
    const both = JSON.stringify([String(leaf.one), String(leaf.other)])
    classes.set(both, [...(classes.get(both) ?? []), leaf])
  }
  return [...[...classes.values()].flatMap(tornApart), ...fallenTogether([...classes.values()])]
}

function isIdentity({ one, other, here }: Renewed): boolean {
  return [one, other, here].every((value) => typeof value === 'string' || typeof value === 'number')
}

/** Equal in both clean runs, but not here. */
function tornApart([first, ...others]: readonly Renewed[]): string[] {
  return others
    .filter(({ here }) => String(here) !== String(first?.here))
    .map(
      ({ place, here }) =>
        `${place}: in the clean run it equals ${first?.place}; here it is ${shown(here)}, and the other is ${shown(first?.here)}`,
    )
}

/** Different in both clean runs, but equal here. */
function fallenTogether(classes: readonly (readonly Renewed[])[]): string[] {
  const seen = new Map<string, Renewed[]>()
  return classes.flatMap(([leaf]) => {
    if (leaf === undefined) return []
    const alike = seen.get(String(leaf.here)) ?? []
    seen.set(String(leaf.here), [...alike, leaf])
    const twin = alike.find((each) => mustDiffer(each, leaf))
    if (twin === undefined) return []
    return [
      `${leaf.place}: in the clean run it differs from ${twin.place}; here both are ${shown(leaf.here)}`,
    ]
  })
}

/** Small numbers of two sequences may be equal by chance; long texts are not, and neither are two values of one sequence. */
function mustDiffer(one: Renewed, other: Renewed): boolean {
  if (String(one.one) === String(other.one) || String(one.other) === String(other.other)) return false
  return one.name === other.name || [one, other].every(isLong)
}

function isLong({ one, other }: Renewed): boolean {
  return [one, other].every((value) => typeof value === 'string' && value.length >= MIN_ID_LENGTH)
}
