import pg from 'pg'
import type { KitDatabase } from '../database/kit-database.js'
import { POOL_SIZE } from '../limits.js'
import { clientOn, cutAll, Wire } from './wire.js'

/** An actor's connections. */
export interface ActorPool {
  readonly pool: pg.Pool
  readonly wire: Wire
}

/** One pool for each actor's name, kept from case to case: a new connection takes longer than most cases. */
export class Pools {
  readonly #database: KitDatabase
  readonly #pools = new Map<string, ActorPool>()

  constructor(database: KitDatabase) {
    this.#database = database
  }

  of(actor: string): ActorPool {
    const known = this.#pools.get(actor)
    if (known !== undefined) return known
    const wire = new Wire()
    const config = this.#database.poolConfig(actor, { max: POOL_SIZE })
    const pool = new pg.Pool({ ...config, Client: clientOn(wire) })
    pool.on('error', () => {})
    // Each attempt has its own engine, which listens until the case has ended.
    pool.setMaxListeners(0)
    const made = { pool, wire }
    this.#pools.set(actor, made)
    return made
  }

  /** Cuts an actor's connections, as the end of its process would. Its next pool is a new one. */
  discard(actor: string): void {
    const known = this.#pools.get(actor)
    if (known === undefined) return
    this.#pools.delete(actor)
    // A timer of the dead actor may still fire, and must not get a new connection.
    known.pool.connect = (() => new Promise(() => {})) as typeof known.pool.connect
    cutAll(known.pool)
  }

  /** Returns the pools that have not got all their clients back. */
  lostClients(): { actor: string; total: number; idle: number }[] {
    return [...this.#pools]
      .filter(([, { pool }]) => pool.totalCount !== pool.idleCount || pool.waitingCount > 0)
      .map(([actor, { pool }]) => ({ actor, total: pool.totalCount, idle: pool.idleCount }))
  }

  reset(): void {
    for (const { wire } of this.#pools.values()) wire.reset()
  }

  async close(): Promise<void> {
    const pools = [...this.#pools.values()]
    this.#pools.clear()
    await Promise.all(
      pools.map(async ({ pool }) => {
        // Ending would wait for clients that are still in use. What they hold is dropped with the schemas.
        if (pool.totalCount === pool.idleCount) await pool.end()
        else cutAll(pool)
      }),
    )
  }
}
