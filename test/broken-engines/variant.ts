import type { EngineOptions } from '@pawl/core'
import type { Core } from './load-variant.js'
import type { Fault, FaultName, Role } from '@pawl/crash-kit'

/** A text in core's source that is replaced before it is compiled. */
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
  /** One call, and the provider can be asked whether it was made. */
  | 'queryable'
  /** Two calls, each in its own phase. */
  | 'two_calls'
  /** Queries that are sent at once, and an error while they are under way, in a run without faults. */
  | 'parallel'
  /** A phase that commits by itself. With the right engine, its key is stuck at once. */
  | 'ends_itself'
  /** One call, whose errors without a status are answered finally. */
  | 'hasty'
  /** One call, which must not be made twice and returns more than the state may hold. */
  | 'large_result'
  /** One call, whose request is different at each attempt, so that the provider refuses the second. */
  | 'refused'
  /** Phases that share their transactions: `commits: 'fewest'`. */
  | 'legs'
  /** The same, and the call must not be made twice. */
  | 'declaring_legs'
  /** Rows that travel with whatever is sent next. The first phase swallows the errors of its query. */
  | 'writes'

/** Where the kit finds it: in a run without faults, by faults at every position, or by a race of these actors. */
export type Search =
  | { readonly by: 'clean run' }
  | { readonly by: 'faults'; readonly faults: readonly (FaultName | Fault)[]; readonly depth: 1 | 2 }
  | { readonly by: 'races'; readonly actors: readonly Role[] }

/** A variant, and what makes it one. */
export type Patches = Pick<Variant, 'name' | 'replacements'>

/** The engine with one thing wrong, as somebody might write it. An undisturbed request still succeeds. */
export interface Variant {
  readonly name: string
  /** What is wrong with it. */
  readonly broken: string
  /** The harm in words. Several rules may notice it. */
  readonly endangers: string
  readonly replacements: readonly Replacement[]
  readonly ride: NeededRide
  /** The guard rails that it has, if the weakness is in one of them. `core`: the broken one. */
  readonly engine?: (core: Core) => Partial<EngineOptions<never>>
  /** Guard rails with which it is not searched, because they are in the way of what shows the weakness. */
  readonly without?: readonly ('protect' | 'cache')[]
  /** The smallest search that finds it. */
  readonly search: Search
  /** What provokes it, as seen on PostgreSQL, with positions as `phase/step#occurrence:when`, and what reveals it. */
  readonly foundBy: string
  /** Rules, of which at least one has to be broken. */
  readonly expected: readonly string[]
}
