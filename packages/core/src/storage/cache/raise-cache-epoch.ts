import { randomUUID } from 'node:crypto'
import type { Bound } from '../../driver/outgoing.js'
import { defineStatement, type Store } from '../statement.js'
import type { Tables } from '../tables.js'
import { newSecret } from './read-cache-epoch.js'

const raiseCacheEpochStatement = defineStatement(
  'raise_cache_epoch',
  ({ cacheEpoch }) => `
  INSERT INTO ${cacheEpoch} AS e (id, secret, epoch, cached) VALUES (1, $1, $2::uuid, false)
      ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch
  RETURNING e.cached`,
)

/**
 * Makes everything that was cached useless. It belongs in the transaction that deletes finished keys before they expire, and as its
 * last statement: the row is one for all, and locked from here until the COMMIT. Where the tables are distributed, no engine caches
 * anything, and there is no statement.
 */
export function raiseCacheEpoch(tables: Tables): readonly Bound[] {
  return tables.spread.overServers ? [] : [raiseCacheEpochStatement.bind(tables, [newSecret(), randomUUID()])]
}

/** Raises it in a transaction of its own. Returns whether an engine with a cache has ever asked for it. */
export async function outdateCaches({ session, tables }: Store): Promise<boolean> {
  const raise = raiseCacheEpoch(tables)
  return raise.length > 0 && isCached((await session.runTogether(raise)).rows[0])
}

/** Whether an engine with a cache has ever asked for the epoch. `row`: what the statement returned. */
export const isCached = (row: Readonly<Record<string, string | null>> | undefined): boolean =>
  row?.['cached'] === 't'
