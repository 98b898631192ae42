import type { Engine } from '@pawl/core'
import pg from 'pg'
import { Provider } from './provider.js'
import { createEngine, createRideOf, type Database } from './rides.js'

/** An engine for apps that never run anything. Nobody asks its pool for a connection. */
export function idleEngine(): Engine<Database> {
  const createRide = createRideOf(new Provider('http://127.0.0.1:1'))
  return createEngine({ pool: new pg.Pool(), pipelines: [createRide] })
}
