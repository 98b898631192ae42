/** How a body awaits what it writes. */
export const AWAITS = [
  'in_turn',
  /** `Promise.all`: the first that fails ends the body while the others are still under way. */
  'all',
  /** `Promise.allSettled`: errors are swallowed. */
  'all_settled',
  /** `Promise.race` of its facts: the body goes on with the first answer. */
  'race',
] as const
export type Awaits = (typeof AWAITS)[number]

/** What a body does before its work, and then undoes or recovers from. */
export const DETOURS = [
  /** A fact is written inside it, under a transaction id of its own. */
  'savepoint_released',
  'savepoint_undone',
  /** Statements are sent at once, one of them fails, and they are undone together. */
  'savepoint_after_error',
  /** Several statements in one text, one of which writes a fact. */
  'several_statements',
  /** A transaction inside the transaction is refused, and the body catches the error. */
  'nested_caught',
  'stream_caught',
] as const
export type Detour = (typeof DETOURS)[number]

/** Those that leave a fact behind. */
export const WRITING_DETOURS: readonly Detour[] = ['savepoint_released', 'several_statements']

/** A statement that nobody awaits. It writes a fact, or comes too late to do so. */
export interface Loose {
  readonly at:
    | 'first'
    /** Between the facts and the rest of the work. */
    | 'middle'
    /** Right before the body returns. */
    | 'last'
    /** Whenever a promise that nobody awaits gets to it, which may be after the body has returned. */
    | { readonly after: number; readonly turns: 'microtasks' | 'immediates' }
  readonly slow: boolean
}

/** How a body is written: the same work, awaited in different ways. */
export interface Style {
  readonly awaits: Awaits
  /** Facts and totals are handed to `write`, and travel with whatever comes next. */
  readonly writes: boolean
  /** Its first query takes some milliseconds. */
  readonly slow: boolean
  readonly detours: readonly Detour[]
  readonly loose: readonly Loose[]
}

/** Facts of detours and of loose statements are numbered from here, because the work of a phase has fewer. */
export const FIRST_DETOUR_FACT = 20
export const FIRST_LOOSE_FACT = 40

/** The number of the fact that a body writes after an error of the database. */
export const STRAY_FACT = 60
