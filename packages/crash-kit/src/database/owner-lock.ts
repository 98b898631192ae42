import pg from 'pg'
import { textRows } from './text-rows.js'

/** Differs from the locks that applications take. */
const lockOf = (parameter: string): string => `hashtextextended('pawl.crash-kit.' || ${parameter}, 0)`

/**
 * Shows that a kit's owner is alive: a lock of a session that stays open for as long as the kit. However its process ends, the
 * server then frees the lock, and the next kit may drop what is left.
 */
export class OwnerLock {
  readonly #client: pg.Client

  private constructor(client: pg.Client) {
    this.#client = client
  }

  static async take(connection: pg.PoolConfig, id: string): Promise<OwnerLock> {
    // It has no actor's name, because it outlives them all.
    const client = new pg.Client({ ...connection, application_name: id })
    // Losing it must not end the process. Nothing guards the schemas then, which matters only to the next kit.
    client.on('error', () => {})
    await client.connect()
    await client.query(`SELECT pg_advisory_lock(${lockOf('$1')})`, [id])
    // A kit that nobody closed must not keep its process alive.
    keepsAlive(client).unref()
    return new OwnerLock(client)
  }

  async release(): Promise<void> {
    // Otherwise the process could end before this is done.
    keepsAlive(this.#client).ref()
    await this.#client.end()
  }
}

/** The types of pg do not have these methods. */
function keepsAlive(client: pg.Client): { ref(): void; unref(): void } {
  return client as unknown as { ref(): void; unref(): void }
}

/** Returns whether the owner of a kit is gone. If so, this session has its lock now, and frees it with `giveBackLock`. */
export async function takeOverLock(session: pg.ClientBase, id: string): Promise<boolean> {
  const [row] = await textRows(session, `SELECT pg_try_advisory_lock(${lockOf('$1')}) AS taken`, [id])
  return row?.['taken'] === 't'
}

export async function giveBackLock(session: pg.ClientBase, id: string): Promise<void> {
  await session.query(`SELECT pg_advisory_unlock(${lockOf('$1')})`, [id])
}
