import { keyColumnsIn, type KeyRow, readKeyRow } from './key-row.js'
import { CONDITION } from './unfinished.js'
import { defineStatement, msInterval, NOW, type Store } from '../statement.js'
import type { Tables } from '../tables.js'

/** Which keys to list. Null stands for any. */
export interface Listing {
  readonly pipeline: string | null
  readonly version: number | null
  readonly recoveryPoint: string | null
  readonly scope: string | null
  readonly stuckReason: string | null
  readonly olderThanMs: number | null
  readonly unattendedOnly: boolean
  readonly limit: number
}

const LISTED = `($1::text IS NULL OR k.pipeline = $1) AND ($2::integer IS NULL OR k.version = $2::integer)
        AND ($3::text IS NULL OR k.recovery_point = $3) AND ($4::text IS NULL OR k.scope = $4)
        AND ($5::text IS NULL OR k.stuck_reason = $5)
        AND ($6::double precision IS NULL OR k.created_at <= (${NOW} - ${msInterval('$6')}))
        AND (NOT $7::boolean OR ${CONDITION} = 'unattended')`

/**
 * The oldest keys of each version, which the index returns without reading the others, and of those the oldest. The
 * versions are found by stepping through the index, with one probe for each.
 */
const listUnfinished =
  (status: 'running' | 'stuck') =>
  (tables: Tables): string => {
    const { keys } = tables
    return `
  WITH RECURSIVE versions AS (
    (SELECT k.pipeline, k.version FROM ${keys} AS k WHERE k.status = '${status}'
      ORDER BY k.pipeline, k.version LIMIT 1)
    UNION ALL
    SELECT next.pipeline, next.version FROM versions AS v CROSS JOIN LATERAL (
      SELECT k.pipeline, k.version FROM ${keys} AS k
       WHERE k.status = '${status}' AND (k.pipeline, k.version) > (v.pipeline, v.version)
       ORDER BY k.pipeline, k.version LIMIT 1) AS next
  )
  SELECT found.* FROM versions AS v CROSS JOIN LATERAL (
    SELECT ${keyColumnsIn(tables)}, k.created_at FROM ${keys} AS k
     WHERE k.status = '${status}' AND k.pipeline = v.pipeline AND k.version = v.version AND ${LISTED}
     ORDER BY k.created_at LIMIT $8::integer
  ) AS found
  WHERE ($1::text IS NULL OR v.pipeline = $1) AND ($2::integer IS NULL OR v.version = $2::integer)
  ORDER BY found.created_at LIMIT $8::integer`
  }

/** Every shard sorts its own: a step through the index of all of them would be a round trip to each. */
const listUnfinishedOverServers =
  (status: 'running' | 'stuck') =>
  (tables: Tables): string =>
    `SELECT ${keyColumnsIn(tables)} FROM ${tables.keys} AS k WHERE k.status = '${status}' AND ${LISTED}
   ORDER BY k.created_at LIMIT $8::integer`

const LIST_STATEMENTS = {
  running: defineStatement('list_running', listUnfinished('running'), listUnfinishedOverServers('running')),
  stuck: defineStatement('list_stuck', listUnfinished('stuck'), listUnfinishedOverServers('stuck')),
  finished: defineStatement(
    'list_finished',
    (tables) => `
  SELECT ${keyColumnsIn(tables)} FROM ${tables.keys} AS k WHERE k.status = 'finished' AND ${LISTED}
   ORDER BY k.expires_at LIMIT $8::integer`,
  ),
} as const

/** Keys of one status, oldest first; finished ones ordered by when they expire, which is how they are indexed. */
export async function listKeys(
  store: Store,
  status: keyof typeof LIST_STATEMENTS,
  listing: Listing,
): Promise<KeyRow[]> {
  const { rows } = await LIST_STATEMENTS[status](store, [
    listing.pipeline,
    listing.version,
    listing.recoveryPoint,
    listing.scope,
    listing.stuckReason,
    listing.olderThanMs,
    listing.unattendedOnly,
    listing.limit,
  ])
  return rows.map((row) => readKeyRow(row, store.tables))
}
