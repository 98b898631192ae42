import fc from 'fast-check'
import { AWAITS, DETOURS, type Loose, type Style } from './body-style.js'

/** Enough turns for a body with a few queries to have returned sometimes. */
const MOST_MICROTASKS = 120
const MOST_IMMEDIATES = 12

/** A statement that nobody awaits. */
export const loose: fc.Arbitrary<Loose> = fc.record({
  at: fc.oneof(
    { withCrossShrink: true },
    { weight: 3, arbitrary: fc.constantFrom<Loose['at'][]>('first', 'middle', 'last') },
    fc.record({
      after: fc.nat({ max: MOST_MICROTASKS }),
      turns: fc.constant('microtasks' as const),
    }),
    fc.record({
      after: fc.nat({ max: MOST_IMMEDIATES }),
      turns: fc.constant('immediates' as const),
    }),
  ),
  slow: fc.boolean(),
})

/** Most bodies have none, so that what a body has can be seen on its own. */
function rarely<T>(element: fc.Arbitrary<T>): fc.Arbitrary<T[]> {
  return fc.oneof(
    { withCrossShrink: true },
    { weight: 3, arbitrary: fc.constant<T[]>([]) },
    fc.array(element, { minLength: 1, maxLength: 2 }),
  )
}

/** How a body is written. It shrinks to one that awaits each of its queries. */
export const style: fc.Arbitrary<Style> = fc.record({
  awaits: fc.constantFrom(...AWAITS),
  writes: fc.oneof(
    { withCrossShrink: true },
    { weight: 2, arbitrary: fc.constant(false) },
    fc.constant(true),
  ),
  slow: fc.oneof({ withCrossShrink: true }, { weight: 4, arbitrary: fc.constant(false) }, fc.constant(true)),
  detours: rarely(fc.constantFrom(...DETOURS)),
  loose: rarely(loose),
})

/** The way bodies are usually written. */
export const PLAIN_STYLE: Style = { awaits: 'in_turn', writes: false, slow: false, detours: [], loose: [] }
