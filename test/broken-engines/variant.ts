import type { Fault, FaultName, Role } from '@pawl/crash-kit'

/** A text of core's source that is exchanged before it is compiled. */
interface Replacement {
  /** Below packages/core/src. */
  readonly file: string
  /** Occurs there exactly once. */
  readonly from: string
  readonly to: string
}

/** Which ride shows the weakness, of those in rides.ts. */
export type NeededRide =
  /** One call, which the provider deduplicates. */
  | 'keyed'
  /** One call, which must not be made twice. */
  | 'at_most_once'
  /** One call, of which the provider can be asked whether it was made. */
  | 'queryable'
  /** Two calls, each with a phase of its own. */
  | 'two_calls'
  /** Queries that are made at once, and an error while they are under way: in a run without faults. */
  | 'parallel'
  /** A phase that commits by itself: with the right engine, its key is stuck at once. */
  | 'ends_itself'
  /** One call, whose errors without a status are answered finally. */
  | 'hasty'
  /** One call, which must not be made twice and returns more than the state may hold. */
  | 'large_result'
  /** One call, whose request is another one at each attempt: the provider refuses the second. */
  | 'refused'

/** Where the kit finds it: in a run without faults, by faults at every position, or by a race of these actors. */
export type Search =
  | { readonly by: 'clean run' }
  | { readonly by: 'faults'; readonly faults: readonly (FaultName | Fault)[]; readonly depth: 1 | 2 }
  | { readonly by: 'races'; readonly actors: readonly Role[] }

/** The engine with one thing wrong, as somebody might write it. A request that nothing disturbs still goes through. */
export interface Variant {
  readonly name: string
  /** What is wrong with it. */
  readonly broken: string
  /** Which guarantee that endangers: in words, since several rules may notice. */
  readonly endangers: string
  readonly replacements: readonly Replacement[]
  readonly ride: NeededRide
  /** The least that reaches it. */
  readonly search: Search
  /** What provokes it, as watched on PostgreSQL, with positions as `phase/step#occurrence:when`, and what shows it. */
  readonly foundBy: string
  /** Rules of which one has to object. */
  readonly expected: readonly string[]
}
