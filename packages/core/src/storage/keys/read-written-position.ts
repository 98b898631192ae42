import { DATABASE } from './database.js'
import { defineStatement, epochMs, NOW, type Store } from '../statement.js'

/** How far the primary has come: everything that it had committed is written in its log before this position. */
export interface WrittenPosition {
  /** Which database of which cluster it is. */
  readonly database: string
  readonly timeline: number
  readonly position: bigint
  /** The primary's clock, rounded down. */
  readonly nowMs: number
}

/**
 * Where the next record goes, and not how much has reached the disk: a commit that does not wait for the disk is already
 * seen by others. The name of a log file begins with the timeline, which the control file learns only at a checkpoint.
 */
const readWrittenPositionStatement = defineStatement(
  'read_written_position',
  () => `
  SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0'::pg_lsn) AS position,
         substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) AS timeline,
         current_setting('wal_block_size') AS page_bytes, ${DATABASE} AS database,
         ${epochMs(NOW)} AS now_ms`,
)

/** Asks the primary how far it has come. Fails on a replica, which writes nothing. */
export async function readWrittenPosition(store: Store): Promise<WrittenPosition> {
  const { rows } = await readWrittenPositionStatement(store, [], 'read')
  const row = rows[0] ?? {}
  return {
    database: row['database'] ?? '',
    timeline: Number.parseInt(row['timeline'] ?? '', 16),
    position: endOfRecords(BigInt(row['position'] ?? ''), BigInt(row['page_bytes'] ?? '')),
    nowMs: Number(row['now_ms']),
  }
}

/** The header of a page of the log is shorter than this, or as long; no record is that short. */
const MOST_HEADER_BYTES = 40n

/**
 * Returns where the last record ends, given where the next one begins. At the end of a page the two differ by the header of
 * the next page, and a replica says the former: it would seem behind until something else is written. A record that ends
 * this early on its page has begun on an earlier one, so that whoever is at the page, or past it, has replayed it.
 */
export function endOfRecords(nextRecord: bigint, pageBytes: bigint): bigint {
  const onPage = nextRecord % pageBytes
  return onPage <= MOST_HEADER_BYTES ? nextRecord - onPage : nextRecord
}
