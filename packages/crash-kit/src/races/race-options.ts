import {
  checkKnownOptions,
  checkOneOf,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '@pawl/core/internal'
import { DEFAULT_RACES, DEFAULT_SEED } from '../limits.js'
import { type Role, ROLES } from './stepped-actor.js'

/** How actors race. */
export interface RaceOptions {
  /**
   * Who takes part; a name may appear more than once. `zombie` gets somewhere, freezes past its lease and wakes. `mismatch` sends
   * another request under the same key. Default: one of each.
   */
  readonly actors?: readonly Role[]
  /** How many schedules are tried. Default 100. */
  readonly runs?: number
  /** Determines the schedules: the same seed produces the same ones. */
  readonly seed?: number
  /** The path to one schedule, as a finding reports it. */
  readonly path?: string
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'races' }

export function readRaceOptions(options: RaceOptions): Required<RaceOptions> {
  checkKnownOptions(OWNER, options, ['actors', 'runs', 'seed', 'path'])
  const { actors = ROLES, runs = DEFAULT_RACES, seed = DEFAULT_SEED, path = '' } = options
  if (!Array.isArray(actors) || actors.length === 0)
    throw invalidOption(OWNER, 'actors', actors, `a list of ${ROLES.join(', ')}`)
  for (const actor of actors as readonly string[]) checkOneOf(OWNER, 'actors', actor, ROLES)
  checkWholeNumber(OWNER, 'runs', runs, 1)
  return { actors: actors as readonly Role[], runs, seed, path }
}
