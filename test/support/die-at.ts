import { randomUUID } from 'node:crypto'
import type { Engine, EngineOptions } from '@pawl/core'
import pg from 'pg'
import { engineThatDiesAt } from './crash.js'
import type { Database } from './rides.js'
import type { TestDatabase } from './test-database.js'

/**
 * Runs `work` on an engine that dies at a position, and returns once the server has noticed and the lease is over, so that
 * the next engine may take over.
 */
export async function dieAt(
  database: TestDatabase,
  options: Omit<EngineOptions<Database>, 'pool' | 'schema'>,
  at: string,
  work: (engine: Engine<Database>) => Promise<unknown>,
): Promise<void> {
  const application = `dying_${randomUUID()}`
  // This is not one of the database's pools: its clients are never given back, so it could not be ended.
  const pool = new pg.Pool({
    connectionString: database.url,
    options: `-c search_path=${database.businessSchema}`,
    application_name: application,
  })
  const { engine, died } = engineThatDiesAt({ ...options, pool, schema: database.schema }, at)
  const outlived = work(engine).then((outcome) => {
    throw new Error(`it came to its end without passing ${at}: ${JSON.stringify(outcome)}`)
  })
  await Promise.race([died, outlived])
  await database.backendsGone(application)
  await database.expireLeases()
}
