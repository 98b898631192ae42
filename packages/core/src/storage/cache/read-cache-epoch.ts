import { randomBytes, randomUUID } from 'node:crypto'
import type { Session } from '../../driver/session.js'
import { DATABASE } from '../keys/database.js'
import { runUnnamed } from '../run-unnamed.js'
import { defineStatement, epochMs, NOW } from '../statement.js'
import type { Tables } from '../tables.js'

/** Which cached keys may be used, and what they are named and signed with. */
export interface CacheEpoch {
  /** Nobody without the right to read the tables knows it. */
  readonly secret: string
  /** Another one after each change that cached keys do not know of. */
  readonly epoch: string
  /** Which write of which table it comes from: a row that was restored from a backup is another one, whatever is in it. */
  readonly written: string
  /** Which database of which cluster it is. */
  readonly database: string
  /** Since which start of the server: commits that a crash has lost were made before. */
  readonly server: string
  /** The database's clock, rounded down. */
  readonly nowMs: number
}

const readCacheEpochStatement = defineStatement(
  'read_cache_epoch',
  ({ cacheEpoch, server }) => `
  SELECT e.secret, e.epoch, e.cached, e.xmin AS written_by, e.tableoid AS written_to, ${DATABASE} AS database, ${server} AS server, pg_is_in_recovery() AS in_recovery,
         ${epochMs(NOW)} AS now_ms
    FROM ${cacheEpoch} AS e WHERE e.id = 1`,
)

/** It waits for whoever is raising the epoch, and whoever raises it waits for this. */
const noteCachingStatement = defineStatement(
  'note_caching',
  ({ cacheEpoch }) => `
  INSERT INTO ${cacheEpoch} AS e (id, secret, epoch, cached) VALUES (1, $1, $2::uuid, true)
      ON CONFLICT (id) DO UPDATE SET cached = true WHERE NOT e.cached`,
)

const SECRET_BYTES = 32

/** What is written to a table for the first time. */
export const newSecret = (): string => randomBytes(SECRET_BYTES).toString('hex')

/**
 * Reads the epoch, and notes before its first use that keys are cached: from then on, whoever forgets a key waits. Tests do not
 * stop at its statements, which come whenever an engine needs them. Returns null on a server that is not the primary.
 */
export async function readCacheEpoch(session: Session, tables: Tables): Promise<CacheEpoch | null> {
  const read = async () =>
    (await runUnnamed({ session }, readCacheEpochStatement.bind(tables, []), 'read')).rows[0]
  let row = await read()
  if (row?.['cached'] !== 't') {
    await runUnnamed({ session }, noteCachingStatement.bind(tables, [newSecret(), randomUUID()]))
    row = await read()
  }
  const { secret, epoch, database, server } = row ?? {}
  if (secret == null || epoch == null || database == null || server == null) return null
  if (row?.['cached'] !== 't' || row['in_recovery'] !== 'f') return null
  const written = `${row['written_to'] ?? ''}/${row['written_by'] ?? ''}`
  return { secret, epoch, written, database, server, nowMs: Number(row['now_ms']) }
}
