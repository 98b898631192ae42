import type { Client } from 'pg'

/** What the server has counted so far, over all databases. */
export interface Counters {
  readonly walBytes: number
  /** Transactions that wrote something: those that only read take no number. */
  readonly transactions: number
}

/** Asked without taking a transaction number: pg_current_xact_id() would count itself. */
const READ_COUNTERS = `
SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::text AS wal_bytes,
       pg_snapshot_xmax(pg_current_snapshot())::text AS transactions`

export async function readCounters(observer: Client): Promise<Counters> {
  const { rows } = await observer.query<{ wal_bytes: string; transactions: string }>(READ_COUNTERS)
  return { walBytes: Number(rows[0]?.wal_bytes), transactions: Number(rows[0]?.transactions) }
}
