import { pawlIn } from './pawl.js'
import { quickRide } from './quick-ride.js'

/** Every phase is a commit, as by default; everything else is as fast as it goes. */
export const pawlEach = pawlIn('bench_pawl_each', 'pawl-each', 'Pawl, each phase a commit', {
  ride: quickRide,
})
