import type { Client, Pool, PoolClient } from 'pg'
import { PawlError } from '../errors.js'
import { Session, type SessionOptions } from './session.js'

/** What a pool does with a new connection before handing it out, besides emitting `connect`. */
interface PoolHooks {
  readonly onConnect?: (client: PoolClient) => unknown
  readonly verify?: (client: PoolClient, done: (error?: Error) => void) => void
}

/**
 * Opens a session outside the pool, with the pool's settings and hooks: a saturated pool cannot starve it. Releasing it
 * ends the connection.
 */
export async function openSession(pool: Pool, phase: string, options: SessionOptions): Promise<Session> {
  const ClientOfPool = (pool as unknown as { Client: new (options: unknown) => Client }).Client
  const client = new ClientOfPool(pool.options) as Client & PoolClient
  client.release = () => void client.end().catch(() => {})
  // No pool listens once the session is released, and an ending connection may still break.
  client.on('error', () => {})
  const session = new Session(client, phase, options)
  let timer: NodeJS.Timeout | undefined
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      session.cut()
      reject(
        new Error(`No connection was open, with its hooks done, within ${options.statementDeadlineMs} ms`),
      )
    }, options.statementDeadlineMs)
  })
  try {
    // A hook may wait for something other than the connection, and forever.
    await Promise.race([connectAsPool(pool, client), expired])
    return session
  } catch (error) {
    session.release()
    throw new PawlError('PAWL_NO_CONNECTION', 'Could not connect to PostgreSQL.', { cause: error })
  } finally {
    clearTimeout(timer)
  }
}

/**
 * In the pool's own order, since applications set roles and search paths in these hooks: without them nothing could be
 * renewed.
 */
async function connectAsPool(pool: Pool, client: Client & PoolClient): Promise<void> {
  const { onConnect, verify } = pool.options as unknown as PoolHooks
  await client.connect()
  await onConnect?.(client)
  client.once('end', () => pool.emit('remove', client))
  pool.emit('connect', client)
  if (verify === undefined) return
  await new Promise<void>((resolve, reject) => {
    verify(client, (error) => (error == null ? resolve() : reject(error)))
  })
}
