import { MIN_ID_LENGTH } from '../limits.js'
import { nameOf, type Path, placeOf } from './json-path.js'
import { isTime, isTimeOfRun } from './times.js'
import type { Scalar, Together } from './walk-together.js'

/** A single value of the clean run, as each of the two runs had it. */
export interface Leaf {
  /** Its path with indexes. */
  readonly place: string
  /** Its path without indexes. */
  readonly name: string
  readonly one: Scalar
  readonly other: Scalar
}

/** What has to hold for a value in another run. */
type Expectation =
  /** It is the same. */
  | { readonly kind: 'same' }
  /** It is some time. */
  | { readonly kind: 'time' }
  /** It contains ids of the run, and is the same except for those. */
  | { readonly kind: 'template'; readonly template: string }
  /** It is new in each run. What counts is where else it appears. */
  | { readonly kind: 'identity' }

/** An id of the run: a text that both runs had in the same places, each with its own value. */
interface Id {
  /** Where it first appears. */
  readonly place: string
  readonly one: string
  readonly other: string
}

export interface Volatility {
  readonly leaves: readonly Leaf[]
  readonly ids: readonly Id[]
  /** By place. */
  readonly expectations: ReadonlyMap<string, Expectation>
}

/** When the two runs began. Their current times are close to that. */
export type RunTimes = readonly [oneMs: number, otherMs: number]

/**
 * Learns from two clean runs which values are new in each. It does not look at names: values in which the two differ are volatile,
 * and so are all of the same name.
 */
export function volatilityOf(pairs: Together['leaves'], [oneMs, otherMs]: RunTimes): Volatility {
  const leaves = pairs.map(({ path, one, other }) => leafOf(path, one, other))
  const isVolatile = ({ one, other }: Leaf) =>
    one !== other || (isTimeOfRun(one, oneMs) && isTimeOfRun(other, otherMs))
  const volatile = new Set(leaves.filter(isVolatile).map(({ name }) => name))
  const { ids, templates } = findIds(leaves.filter(({ name }) => volatile.has(name)))
  const expectationOf = ({ place, name, one, other }: Leaf): Expectation => {
    if (!volatile.has(name)) return { kind: 'same' }
    if (isTime(one) && isTime(other)) return { kind: 'time' }
    const template = templates.get(place)
    return template === undefined ? { kind: 'identity' } : { kind: 'template', template }
  }
  return { leaves, ids, expectations: new Map(leaves.map((leaf) => [leaf.place, expectationOf(leaf)])) }
}

function leafOf(path: Path, one: Scalar, other: Scalar): Leaf {
  return { place: placeOf(path), name: nameOf(path), one, other }
}

/** Goes from short to long: a text that is the same in both runs, except for ids that are already known, is not an id itself. */
function findIds(volatile: readonly Leaf[]): { ids: Id[]; templates: Map<string, string> } {
  const ids: Id[] = []
  const templates = new Map<string, string>()
  const texts = volatile.filter(isLongText).toSorted((a, b) => a.one.length - b.one.length)
  for (const { place, one, other } of texts) {
    if (one === other || ids.some((id) => id.one === one && id.other === other)) continue
    const template = withoutIds(one, textsOf(ids, 'one'))
    if (template === withoutIds(other, textsOf(ids, 'other'))) templates.set(place, template)
    else ids.push({ place, one, other })
  }
  return { ids, templates }
}

function isLongText(leaf: Leaf): leaf is Leaf & Id {
  return [leaf.one, leaf.other].every(
    (value) => typeof value === 'string' && value.length >= MIN_ID_LENGTH && !isTime(value),
  )
}

function textsOf(ids: readonly Id[], run: 'one' | 'other'): (readonly [place: string, text: string])[] {
  return ids.map((id) => [id.place, id[run]] as const)
}

/** Replaces each id in the text by the name of its place. The longest come first, since they may contain shorter ones. */
export function withoutIds(text: string, ids: readonly (readonly [place: string, text: string])[]): string {
  return ids
    .toSorted(([, a], [, b]) => b.length - a.length)
    .reduce((left, [place, id]) => left.replaceAll(id, () => `⟨${place}⟩`), text)
}
