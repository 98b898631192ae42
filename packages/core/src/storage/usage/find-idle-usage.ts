import { readAllShards } from '../schema/read-all-shards.js'
import { defineStatement, msInterval, NOW, type Store } from '../statement.js'
import { MOST_PARTS } from './stored-bytes.js'

/** A bucket is full, and as good as none, once it has not been used for as long as it takes to fill it. */
export const isFull = (perMs: string): string => `(u.refilled_at + ${msInterval(perMs)}) <= ${NOW}`

/**
 * Without locks. `is_idle`: a bucket that is full, or bytes whose parts add up to nothing, or are too many. A scope that the page cuts in
 * two is looked at again by the next one.
 */
const findIdleUsageStatement = defineStatement(
  'find_idle_usage',
  ({ scopeUsage }) => `
  WITH page AS (
    SELECT u.scope, u.kind, u.pipeline, u.refilled_at, u.per_ms, u.bytes FROM ${scopeUsage} AS u
     WHERE u.scope > $1 ORDER BY u.scope, u.kind, u.pipeline, u.part LIMIT $2::integer
  )
  SELECT u.scope, u.kind, u.pipeline, count(*) AS parts,
         CASE WHEN u.kind = 'stored_bytes' THEN coalesce(sum(u.bytes), 0::numeric) = 0::numeric OR count(*) > ${MOST_PARTS}
              ELSE bool_and(${isFull('u.per_ms')}) END AS is_idle
    FROM page AS u GROUP BY u.scope, u.kind, u.pipeline ORDER BY u.scope, u.kind, u.pipeline`,
)

/** What a scope has used of one limit. */
export interface Usage {
  readonly scope: string
  readonly kind: 'new_keys' | 'lookups' | 'stored_bytes'
  readonly pipeline: string
  readonly parts: number
  readonly isIdle: boolean
}

/** Looks at a page of the rows of usage: those of scopes after this one. */
export async function findIdleUsage(store: Store, afterScope: string, limit: number): Promise<Usage[]> {
  const values = [afterScope, limit]
  const rows = await readAllShards(findIdleUsageStatement, store, values, store.tables.scopeUsage)
  const found = rows.map((row) => ({
    scope: row['scope'] ?? '',
    kind: row['kind'] as Usage['kind'],
    pipeline: row['pipeline'] ?? '',
    parts: Number(row['parts']),
    isIdle: row['is_idle'] === 't',
  }))
  return store.tables.spread.overServers ? firstOf(found, limit) : found
}

/** Each server may have answered with a page of its own. There, each row is a group. */
function firstOf(found: readonly Usage[], limit: number): Usage[] {
  const bytes = found.map((usage) => ({ usage, name: Buffer.from(usage.scope) }))
  return bytes
    .toSorted((a, b) => Buffer.compare(a.name, b.name))
    .slice(0, limit)
    .map(({ usage }) => usage)
}
