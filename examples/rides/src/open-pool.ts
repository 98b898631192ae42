import pg from 'pg'
import type { Config } from './config.js'

/** A server that has not answered by then is not available. Without a limit, each attempt would keep a place in the pool. */
const CONNECTION_TIMEOUT_MS = 5_000

/** The connections of one process: the engine, the queue and the routes share them. */
export function openPool({ databaseUrl, poolMax }: Pick<Config, 'databaseUrl' | 'poolMax'>): pg.Pool {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    max: poolMax,
    connectionTimeoutMillis: CONNECTION_TIMEOUT_MS,
  })
  // An idle connection that breaks is replaced; without a listener it would end the process.
  pool.on('error', (error) => console.error(error.message))
  // A connection in use reports the error to its user, but needs a listener all the same. graphile-worker asks for it.
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}
