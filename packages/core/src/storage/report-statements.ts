import { COUNT_LIMIT, FINISHED_KEYS_SEEN } from '../limits.js'
import type { StuckReason } from '../pipeline/outcome.js'
import { POINT_TEXT } from './point-text.js'
import { defineStatement, epochMs, msInterval, type Store } from './statement.js'
import type { Tables } from './tables.js'

/** The clock as an index can be asked with: once per statement, instead of once per row. */
export const NOW = '(SELECT clock_timestamp())'

/** Who has to act on a running key. */
export const CONDITION = `CASE WHEN k.status = 'stuck' THEN 'stuck' WHEN k.lease_until > ${NOW} THEN 'held'
            WHEN k.run_after > ${NOW} THEN 'backing_off' ELSE 'unattended' END`

/** Keys of atomic handlers wait for their client: no completer runs them. */
const FOR_A_COMPLETER = `k.kind = 'pipeline'`

/** A key cannot have become due before it was last written. */
const DUE_SINCE = 'greatest(k.lease_until, k.run_after, k.updated_at)'

/** A bounded number of unfinished keys, through the index that holds only those of their status. */
const unfinished = ({ keys }: Tables, status: 'running' | 'stuck', where = 'true'): string => `
    (SELECT k.* FROM ${keys} AS k WHERE k.status = '${status}' AND ${where}
      ORDER BY k.pipeline, k.version, k.created_at LIMIT ${COUNT_LIMIT})`

const bothUnfinished = (tables: Tables, where?: string): string =>
  `(${unfinished(tables, 'running', where)} UNION ALL ${unfinished(tables, 'stuck', where)}) AS k`

const CONDITIONS = ['held', 'backing_off', 'unattended', 'stuck'] as const

/** Unfinished keys of one pipeline, version and recovery point. */
export interface GroupRow {
  readonly pipeline: string
  readonly version: number
  readonly recoveryPoint: string
  readonly point: string
  readonly counts: Readonly<Record<(typeof CONDITIONS)[number], number>>
  readonly oldestCreatedMs: number
}

const groupUnfinishedStatement = defineStatement(
  'group_unfinished',
  (tables) => `
  SELECT k.pipeline, k.version, k.recovery_point, ${POINT_TEXT} AS point,
         ${epochMs('min(k.created_at)')} AS oldest_created_ms,
         ${CONDITIONS.map((name) => `count(*) FILTER (WHERE ${CONDITION} = '${name}') AS ${name}`).join(', ')}
    FROM ${bothUnfinished(tables, '($1::text IS NULL OR k.pipeline = $1 AND k.version = $2::integer)')}
   GROUP BY k.pipeline, k.version, k.recovery_point, point
   ORDER BY k.pipeline, k.version, min(k.created_at)`,
)

/** Unfinished keys by where they stand; of one version, or (null) of all. */
export async function groupUnfinished(
  store: Store,
  of: { readonly pipeline: string; readonly version: number } | null,
): Promise<GroupRow[]> {
  const { rows } = await groupUnfinishedStatement(store, [of?.pipeline ?? null, of?.version ?? null])
  return rows.map((row) => ({
    pipeline: row['pipeline'] ?? '',
    version: Number(row['version']),
    recoveryPoint: row['recovery_point'] ?? '',
    point: row['point'] ?? '',
    counts: {
      held: Number(row['held']),
      backing_off: Number(row['backing_off']),
      unattended: Number(row['unattended']),
      stuck: Number(row['stuck']),
    },
    oldestCreatedMs: Number(row['oldest_created_ms']),
  }))
}

const groupStuckStatement = defineStatement(
  'group_stuck',
  (tables) => `
  SELECT k.stuck_reason, count(*) AS count FROM ${unfinished(tables, 'stuck')} AS k
   GROUP BY k.stuck_reason ORDER BY count(*) DESC, k.stuck_reason`,
)

export async function groupStuck(
  store: Store,
): Promise<{ readonly reason: StuckReason; readonly count: number }[]> {
  const { rows } = await groupStuckStatement(store, [])
  return rows.map((row) => ({ reason: row['stuck_reason'] as StuckReason, count: Number(row['count']) }))
}

const findOverdueStatement = defineStatement(
  'find_overdue',
  (tables) => `
  SELECT k.scope, k.key, count(*) OVER () AS count,
         extract(epoch FROM clock_timestamp() - ${DUE_SINCE}) * 1000 AS since_ms
    FROM ${unfinished(tables, 'running', FOR_A_COMPLETER)} AS k
   WHERE ${CONDITION} = 'unattended' AND ${DUE_SINCE} <= (${NOW} - ${msInterval('$1')})
   ORDER BY ${DUE_SINCE} LIMIT 1`,
)

/** The key that has been due longest, among those that have been for so long, and how many they are. */
export async function findOverdue(
  store: Store,
  forMs: number,
): Promise<{
  readonly scope: string
  readonly key: string
  readonly sinceMs: number
  readonly count: number
} | null> {
  const { rows } = await findOverdueStatement(store, [forMs])
  const row = rows[0]
  if (row === undefined) return null
  return {
    scope: row['scope'] ?? '',
    key: row['key'] ?? '',
    sinceMs: Math.round(Number(row['since_ms'])),
    count: Number(row['count']),
  }
}

/** How long a key has been tried for: a person who pushes it on gives it its time anew. */
const TRIED_SINCE = 'coalesce(k.unstuck_at, k.created_at)'

const findRetriedStatement = defineStatement(
  'find_retried',
  (tables) => `
  SELECT k.scope, k.key, count(*) OVER () AS count,
         extract(epoch FROM clock_timestamp() - ${TRIED_SINCE}) * 1000 AS since_ms
    FROM ${unfinished(tables, 'running', FOR_A_COMPLETER)} AS k
   WHERE (k.retries > 0 OR k.attempts > 1) AND ${TRIED_SINCE} <= (${NOW} - ${msInterval('$1')})
   ORDER BY ${TRIED_SINCE} LIMIT 1`,
)

/** Of the running keys that have been tried more than once, for so long: the one for longest, and how many they are. */
export async function findRetried(
  store: Store,
  forMs: number,
): Promise<{
  readonly scope: string
  readonly key: string
  readonly sinceMs: number
  readonly count: number
} | null> {
  const { rows } = await findRetriedStatement(store, [forMs])
  const row = rows[0]
  if (row === undefined) return null
  return {
    scope: row['scope'] ?? '',
    key: row['key'] ?? '',
    sinceMs: Math.round(Number(row['since_ms'])),
    count: Number(row['count']),
  }
}

/** Counts in an index's own order, so that it is the index that is read. One more than the limit tells "or more". */
const counted = (from: string, where: string, order: string): string =>
  `(SELECT count(*) FROM (SELECT FROM ${from} WHERE ${where} ORDER BY ${order} LIMIT ${COUNT_LIMIT + 1}) AS counted)`

const countRowsStatement = defineStatement(
  'count_rows',
  ({ keys, stagedJobs }) => `
  SELECT ${epochMs('clock_timestamp()')} AS now_ms,
         ${counted(keys, `status = 'finished'`, 'expires_at')} AS finished,
         ${counted(keys, `status = 'finished' AND expires_at <= ${NOW}`, 'expires_at')} AS expired,
         ${counted(stagedJobs, 'dead_at IS NULL', 'run_after')} AS waiting,
         ${counted(stagedJobs, 'dead_at IS NOT NULL', 'dead_at')} AS dead,
         (SELECT extract(epoch FROM ${NOW} - j.run_after) * 1000 FROM ${stagedJobs} AS j
           WHERE j.dead_at IS NULL AND j.run_after <= ${NOW} ORDER BY j.run_after LIMIT 1) AS oldest_due_ms`,
)

/** Counts stop one above the limit. */
export interface RowCounts {
  readonly nowMs: number
  readonly finished: number
  readonly expired: number
  readonly waiting: number
  readonly dead: number
  readonly oldestDueMs: number | null
}

export async function countRows(store: Store): Promise<RowCounts> {
  const { rows } = await countRowsStatement(store, [])
  const row = rows[0] ?? {}
  return {
    nowMs: Number(row['now_ms']),
    finished: Number(row['finished']),
    expired: Number(row['expired']),
    waiting: Number(row['waiting']),
    dead: Number(row['dead']),
    oldestDueMs: row['oldest_due_ms'] == null ? null : Math.round(Number(row['oldest_due_ms'])),
  }
}

const countUnfinishedStatement = defineStatement(
  'count_unfinished',
  (tables) => `
  SELECT count(*) AS count
    FROM ${bothUnfinished(tables, 'k.created_at < to_timestamp($1::double precision / 1000)')}`,
)

/** How many keys of before a moment are unfinished; of each status, it stops at the limit. */
export async function countUnfinished(store: Store, beforeMs: number): Promise<number> {
  const { rows } = await countUnfinishedStatement(store, [beforeMs])
  return Number(rows[0]?.['count'])
}

const hasKeysOfStatement = defineStatement(
  'has_keys_of',
  ({ keys }) => `
  SELECT EXISTS (SELECT FROM ${keys} WHERE status = 'running' AND pipeline = $1)
      OR EXISTS (SELECT FROM ${keys} WHERE status = 'stuck' AND pipeline = $1)
      OR EXISTS (SELECT FROM (SELECT k.pipeline FROM ${keys} AS k WHERE k.status = 'finished'
                               ORDER BY k.expires_at DESC LIMIT ${FINISHED_KEYS_SEEN}) AS latest
                  WHERE latest.pipeline = $1) AS found`,
)

/** Whether a key of that pipeline is there. No index has the pipelines of finished keys: only the latest are read. */
export async function hasKeysOf(store: Store, pipeline: string): Promise<boolean> {
  const { rows } = await hasKeysOfStatement(store, [pipeline])
  return rows[0]?.['found'] === 't'
}

/** Versions in flight. */
export interface VersionInFlight {
  readonly pipeline: string
  readonly version: number
  readonly definitionHash: string
  readonly count: number
}

const findVersionsStatement = defineStatement(
  'find_versions',
  (tables) => `
  SELECT k.pipeline, k.version, k.definition_hash, count(*) AS count
    FROM ${bothUnfinished(tables, FOR_A_COMPLETER)}
   GROUP BY k.pipeline, k.version, k.definition_hash ORDER BY k.pipeline, k.version, k.definition_hash`,
)

/** What unfinished keys are pinned to. Those of atomic handlers are left out: no engine registers them. */
export async function findVersions(store: Store): Promise<VersionInFlight[]> {
  const { rows } = await findVersionsStatement(store, [])
  return rows.map((row) => ({
    pipeline: row['pipeline'] ?? '',
    version: Number(row['version']),
    definitionHash: row['definition_hash'] ?? '',
    count: Number(row['count']),
  }))
}
