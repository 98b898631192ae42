import fc from 'fast-check'

/** What happens next in a race. `who` is the index of an actor. */
export type Turn =
  | { readonly turn: 'move'; readonly who: number; readonly steps: number }
  /** The lease runs out, by the database's clock. */
  | { readonly turn: 'expire' }
  | { readonly turn: 'throw'; readonly who: number }
  | { readonly turn: 'kill'; readonly who: number }
  /** The key's retention is over, if it has finished and nobody but the reaper is left. */
  | { readonly turn: 'retire' }

export interface Schedule {
  /** How far the zombie gets before it freezes and its lease runs out. */
  readonly zombieSteps: number
  /** Afterwards each actor runs to its end, one after the other. */
  readonly turns: readonly Turn[]
}

/** About as many positions as a request of some phases has. Beyond that, a zombie has ended. */
const MOST_ZOMBIE_STEPS = 40
const MOST_STEPS_AT_A_TIME = 12
const MOST_TURNS = 16

/** Generates every schedule of so many actors. It shrinks to fewer turns, and to moves in place of faults. */
export function schedules(actors: number): fc.Arbitrary<Schedule> {
  const who = fc.nat({ max: actors - 1 })
  const steps = fc.integer({ min: 1, max: MOST_STEPS_AT_A_TIME })
  const turn: fc.Arbitrary<Turn> = fc.oneof(
    { weight: 10, arbitrary: fc.record({ turn: fc.constant('move' as const), who, steps }) },
    { weight: 3, arbitrary: fc.record({ turn: fc.constant('expire' as const) }) },
    { weight: 1, arbitrary: fc.record({ turn: fc.constant('throw' as const), who }) },
    { weight: 1, arbitrary: fc.record({ turn: fc.constant('kill' as const), who }) },
    { weight: 1, arbitrary: fc.record({ turn: fc.constant('retire' as const) }) },
  )
  return fc.record({
    zombieSteps: fc.integer({ min: 1, max: MOST_ZOMBIE_STEPS }),
    turns: fc.array(turn, { maxLength: MOST_TURNS, size: 'max' }),
  })
}
