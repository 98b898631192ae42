import fc from 'fast-check'

/** A part of a route's path, between two slashes. */
type Segment =
  | { readonly type: 'fixed'; readonly text: string }
  | { readonly type: 'parameter'; readonly name: string; readonly pattern: string; readonly suffix: string }
  | { readonly type: 'rest' }

/** One of an application's routes. */
export interface Route {
  readonly method: string
  readonly segments: readonly Segment[]
  readonly constraints: string | null
}

// These include the arrow and the spaces that precede a stored key, and `::`, which is a colon to Fastify.
const fixed = fc.record({
  type: fc.constant('fixed' as const),
  text: fc.oneof(
    fc.string({ unit: fc.constantFrom('a', 'b', '.', '-', '_', '~', 'é', ' ', '→', '>', '%'), maxLength: 6 }),
    fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 60, maxLength: 250 }),
    fc.constantFrom('rides::cancel', 'rides::confirm', '::cancel'),
    fc.constantFrom('rides', 'a → b', 'a > b', 'sha256'),
  ),
})

const parameter = fc.record({
  type: fc.constant('parameter' as const),
  name: fc.string({ unit: fc.constantFrom('i', 'd', '_', '1', 'X'), minLength: 1, maxLength: 4 }),
  pattern: fc.constantFrom('', '', String.raw`(^\d+$)`, '(^[a-z]+$)'),
  suffix: fc.constantFrom('', '', '.png', '-x'),
})

export const route: fc.Arbitrary<Route> = fc.record({
  method: fc.constantFrom('POST', 'PATCH', 'PUT', 'DELETE', 'GET'),
  segments: fc.array(fc.oneof(fixed, fixed, parameter, fc.constant({ type: 'rest' as const })), {
    minLength: 1,
    maxLength: 4,
  }),
  constraints: fc.constantFrom(null, null, 'host a.test', 'host b.test', 'host a.test, version 1.0.0'),
})

/** The path as the application declares it. */
export function pathOf({ segments }: Route): string {
  return `/${segments.map(written).join('/')}`
}

function written(segment: Segment): string {
  switch (segment.type) {
    case 'fixed':
      return segment.text
    case 'parameter':
      return `:${segment.name}${segment.pattern}${segment.suffix}`
    case 'rest':
      return '*'
  }
}

/** What identifies the route. The names of its parameters do not count, because only its handler uses them. */
export function identityOf({ method, segments, constraints }: Route): string {
  const named = segments.map((segment) => (segment.type === 'parameter' ? { ...segment, name: '' } : segment))
  return JSON.stringify([method, named, constraints])
}

/** The same route with other names for its parameters. */
export function renamed(of: Route): Route {
  const segments = of.segments.map((segment) =>
    segment.type === 'parameter' ? { ...segment, name: `${segment.name}_new` } : segment,
  )
  return { ...of, segments }
}

/** Another route: every fixed part of its path, if there is one, has one more letter. */
export function lengthened(of: Route): Route {
  const segments = of.segments.map((segment) =>
    segment.type === 'fixed' ? { ...segment, text: `${segment.text}x` } : segment,
  )
  return { ...of, segments }
}
