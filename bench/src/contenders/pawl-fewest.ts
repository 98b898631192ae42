import { pawlIn, type Way } from './pawl.js'
import { quickRide } from './quick-ride.js'

/** Pawl as fast as it goes. */
export const FEWEST: Way = { ride: quickRide, settings: { commits: 'fewest' } }

export const pawlFewest = pawlIn('bench_pawl_fewest', 'pawl-fewest', 'Pawl with fewest commits', FEWEST)
