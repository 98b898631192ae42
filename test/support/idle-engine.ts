import type { Engine } from '@pawl/core'
import pg from 'pg'
import { Provider } from './provider.js'
import { createEngine, createRideOf, type Database } from './rides.js'

/** For apps that are only looked at: an engine on a pool that nobody asks for a connection. */
export function idleEngine(): Engine<Database> {
  const createRide = createRideOf(new Provider('http://127.0.0.1:1'))
  return createEngine({ pool: new pg.Pool(), pipelines: [createRide] })
}
