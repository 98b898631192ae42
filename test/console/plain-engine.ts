import type { Engine } from '@pawl/core'
import { createEngine, type Database } from '../support/rides.js'
import type { TestDatabase } from '../support/test-database.js'

/** An engine that runs nothing: for what wants to have one. */
export function plainEngine(database: TestDatabase): Engine<Database> {
  return createEngine({ pool: database.pool(), schema: database.schema, pipelines: [] })
}
