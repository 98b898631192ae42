import { keyColumnsIn, keyColumnsToListIn, type KeyRow, readKeyRow } from './key-row.js'
import { CONDITION } from './unfinished.js'
import { defineStatement, epochUs, momentOfUs, msInterval, NOW, type Store } from '../statement.js'
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
  /** Null for the first page. */
  readonly after: ListCursor | null
  readonly limit: number
}

/** How far a list has been read: up to and including this key. */
export interface ListCursor {
  /** When it was reserved, or (of finished keys) when it expires, to the microsecond. */
  readonly atUs: string
  readonly scope: string
  readonly key: string
}

/** A key of a list, and where the list goes on after it. */
export interface ListedKey {
  readonly row: KeyRow
  readonly cursor: ListCursor
}

const LISTED = `($1::text IS NULL OR k.pipeline = $1) AND ($2::integer IS NULL OR k.version = $2::integer)
        AND ($3::text IS NULL OR k.recovery_point = $3) AND ($4::text IS NULL OR k.scope = $4)
        AND ($5::text IS NULL OR k.stuck_reason = $5)
        AND ($6::double precision IS NULL OR k.created_at <= (${NOW} - ${msInterval('$6')}))
        AND (NOT $7::boolean OR ${CONDITION} = 'unattended')`

/** The index finds the first of a page by its moment. Keys of the same microsecond are told apart by their names. */
const after = (column: string): string =>
  `(k.${column}, k.scope, k.key) > (${momentOfUs('$9')}, $10::text, $11::text)`

/** Before every moment there is, and every name. */
const FIRST: ListCursor = { atUs: '-1000000000000000', scope: '', key: '' }

type Columns = (tables: Tables) => string

/**
 * The oldest keys of each version, which the index returns without reading the others, and of those the oldest. The
 * versions are found by stepping through the index, with one probe for each.
 */
const listUnfinished =
  (status: 'running' | 'stuck', columnsIn: Columns) =>
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
    SELECT ${columnsIn(tables)}, ${epochUs('k.created_at')} AS at_us, k.created_at FROM ${keys} AS k
     WHERE k.status = '${status}' AND k.pipeline = v.pipeline AND k.version = v.version AND ${LISTED}
       AND ${after('created_at')}
     ORDER BY k.created_at, k.scope, k.key LIMIT $8::integer
  ) AS found
  WHERE ($1::text IS NULL OR v.pipeline = $1) AND ($2::integer IS NULL OR v.version = $2::integer)
  ORDER BY found.created_at, found.scope, found.key LIMIT $8::integer`
  }

/** Every shard sorts its own: a step through the index of all of them would be a round trip to each. */
const listUnfinishedOverServers =
  (status: 'running' | 'stuck', columnsIn: Columns) =>
  (tables: Tables): string =>
    `SELECT ${columnsIn(tables)}, ${epochUs('k.created_at')} AS at_us
    FROM ${tables.keys} AS k WHERE k.status = '${status}' AND ${LISTED} AND ${after('created_at')}
   ORDER BY k.created_at, k.scope, k.key LIMIT $8::integer`

const listFinished =
  (columnsIn: Columns) =>
  (tables: Tables): string =>
    `
  SELECT ${columnsIn(tables)}, ${epochUs('k.expires_at')} AS at_us
    FROM ${tables.keys} AS k WHERE k.status = 'finished' AND ${LISTED} AND ${after('expires_at')}
   ORDER BY k.expires_at, k.scope, k.key LIMIT $8::integer`

const LIST_STATEMENTS = {
  whole: {
    running: defineStatement(
      'list_running',
      listUnfinished('running', keyColumnsIn),
      listUnfinishedOverServers('running', keyColumnsIn),
    ),
    stuck: defineStatement(
      'list_stuck',
      listUnfinished('stuck', keyColumnsIn),
      listUnfinishedOverServers('stuck', keyColumnsIn),
    ),
    finished: defineStatement('list_finished', listFinished(keyColumnsIn)),
  },
  summary: {
    running: defineStatement(
      'list_running',
      listUnfinished('running', keyColumnsToListIn),
      listUnfinishedOverServers('running', keyColumnsToListIn),
    ),
    stuck: defineStatement(
      'list_stuck',
      listUnfinished('stuck', keyColumnsToListIn),
      listUnfinishedOverServers('stuck', keyColumnsToListIn),
    ),
    finished: defineStatement('list_finished', listFinished(keyColumnsToListIn)),
  },
}

/**
 * Keys of one status, oldest first; finished ones ordered by when they expire, which is how they are indexed. `how`:
 * with or without what clients sent and got.
 */
export async function listKeys(
  store: Store,
  status: keyof typeof LIST_STATEMENTS.whole,
  listing: Listing,
  how: keyof typeof LIST_STATEMENTS,
): Promise<ListedKey[]> {
  const from = listing.after ?? FIRST
  const { rows } = await LIST_STATEMENTS[how][status](store, [
    listing.pipeline,
    listing.version,
    listing.recoveryPoint,
    listing.scope,
    listing.stuckReason,
    listing.olderThanMs,
    listing.unattendedOnly,
    listing.limit,
    from.atUs,
    from.scope,
    from.key,
  ])
  return rows.map((row) => {
    const read = readKeyRow(row, store.tables)
    return { row: read, cursor: { atUs: row['at_us'] ?? '0', scope: read.scope, key: read.key } }
  })
}
