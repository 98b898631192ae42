/** How a body awaits what it writes. */
export const AWAITS = [
  'in_turn',
  /** `Promise.all`: the first that fails ends the body, and the others are still under way. */
  'all',
  /** `Promise.allSettled`: what fails is swallowed. */
  'all_settled',
  /** `Promise.race`, of its facts: the body goes on with the first answer. */
  'race',
] as const
export type Awaits = (typeof AWAITS)[number]

/** What a body does before its work, and undoes or gets over. */
export const DETOURS = [
  /** A fact is written inside of it, by a transaction id of its own. */
  'savepoint_released',
  'savepoint_undone',
  /** Statements that are sent at once, one of which fails, are undone together. */
  'savepoint_after_error',
  /** Several in one text, among them one that writes a fact. */
  'several_statements',
  /** A transaction in the transaction: refused, and caught. */
  'nested_caught',
  'stream_caught',
] as const
export type Detour = (typeof DETOURS)[number]

/** Those that leave a fact behind. */
export const WRITING_DETOURS: readonly Detour[] = ['savepoint_released', 'several_statements']

/** A statement that nobody awaits. It writes a fact, or comes too late to. */
export interface Loose {
  readonly at:
    | 'first'
    /** Between the facts and the rest of the work. */
    | 'middle'
    /** Right before the body returns. */
    | 'last'
    /** Whenever a promise that floats beside the body comes to it: after it has returned, as well. */
    | { readonly after: number; readonly turns: 'microtasks' | 'immediates' }
  readonly slow: boolean
}

/** How a body is written: the same work in another order of waiting. */
export interface Style {
  readonly awaits: Awaits
  /** Its first query takes some milliseconds. */
  readonly slow: boolean
  readonly detours: readonly Detour[]
  readonly loose: readonly Loose[]
}

/** Facts of detours and of loose statements are numbered from here: a phase's work has fewer. */
export const FIRST_DETOUR_FACT = 20
export const FIRST_LOOSE_FACT = 40
