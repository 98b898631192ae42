import type { Client, Pool, PoolClient } from 'pg'
import { PawlError } from '../errors.js'
import { Session, type SessionOptions } from './session.js'

/**
 * A session of its own beside the pool, with the pool's settings: a saturated pool cannot starve it. Its release ends
 * the connection.
 */
export async function openSession(pool: Pool, phase: string, options: SessionOptions): Promise<Session> {
  const ClientOfPool = (pool as unknown as { Client: new (options: unknown) => Client }).Client
  const client = new ClientOfPool(pool.options) as Client & PoolClient
  client.release = () => void client.end().catch(() => {})
  // No pool listens once the session is released, and an ending connection may still break.
  client.on('error', () => {})
  const session = new Session(client, phase, options)
  const timer = setTimeout(() => session.cut(), options.statementDeadlineMs)
  try {
    await client.connect()
    return session
  } catch (error) {
    session.release()
    throw new PawlError('PAWL_NO_CONNECTION', 'Could not connect to PostgreSQL.', { cause: error })
  } finally {
    clearTimeout(timer)
  }
}
