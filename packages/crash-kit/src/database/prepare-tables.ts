import pg from 'pg'
import { KitError } from '../kit-error.js'
import type { KitSchemas } from './kit-schemas.js'

/** What `prepare` gets: where the business tables go. */
export interface PrepareContext {
  /** Its search path begins with `schema`, so tables need no prefix. */
  readonly pool: pg.Pool
  readonly schema: string
  /** The framework's schema, for foreign keys to its `idempotency_keys`. */
  readonly pawlSchema: string
}

/**
 * Creates the business tables.
 *
 * @example
 * await pool.query(`CREATE TABLE rides (id uuid PRIMARY KEY, key_id uuid REFERENCES ${pawlSchema}.idempotency_keys)`)
 */
export type Prepare = (place: PrepareContext) => Promise<void>

export async function prepareTables(
  config: pg.PoolConfig,
  { business, pawl }: KitSchemas,
  prepare: Prepare,
): Promise<void> {
  const pool = new pg.Pool(config)
  pool.on('error', () => {})
  try {
    await prepare({ pool, schema: business, pawlSchema: pawl })
  } catch (error) {
    void pool.end()
    throw new KitError('PAWL_KIT_PREPARE_FAILED', `\`prepare\` failed: ${(error as Error).message}`, {
      cause: error,
    })
  }
  const ended = pool.end()
  if (pool.totalCount === pool.idleCount) return ended
  throw new KitError(
    'PAWL_KIT_PREPARE_FAILED',
    '`prepare` has not released a client of its pool, or not awaited a query, so not all tables may be there. Do both before it returns.',
  )
}
