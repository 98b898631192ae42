import { defineStatement, epochMs, msInterval, NOW, type Store } from '../statement.js'
import { isInDoubt } from './trail.js'

/** A key of a scope, and what decides whether it may be erased. */
export interface KeyToErase {
  readonly id: string
  readonly key: string
  readonly status: 'running' | 'finished' | 'stuck'
  /** Whether it was written since the erasure began: effects that were recorded with it are not the erasure's business. */
  readonly hasChanged: boolean
  readonly hasUndeliveredJobs: boolean
  /** Whether its bytes are counted. */
  readonly isCounted: boolean
  /** When the latest of its young effects was settled, or a person answered it, or it ended in doubt, not long ago; null if there is nothing. */
  readonly recentEffectMs: number | null
}

/** Which rows of a scope an erasure looks at. What has come since it began is not its business. */
export interface ErasedScope {
  readonly scope: string
  /** Null stands for all. */
  readonly key: string | null
  readonly beganMs: number
  readonly windowMs: number
}

/**
 * Whether a row was there when the erasure began. One from the future was: the clock that wrote it has gone back since. `beganMs`: a
 * parameter.
 */
export const wasThere = (createdAt: string, beganMs: string): string =>
  `(${createdAt} <= to_timestamp(${beganMs}::double precision / 1000) OR ${createdAt} > ${NOW})`

/**
 * So written that jobs and effects are looked up key by key: for EXISTS, the planner may read all jobs, and for the latest effect all
 * effects of the window by their time. A key that a person
 * answered, or that went on without knowing what a call did, may have had an effect that nobody recorded.
 */
const findKeysToEraseStatement = defineStatement(
  'find_keys_to_erase',
  ({ keys, effects, stagedJobs, interventions }) => `
  SELECT k.id, k.key, k.status, k.stored_bytes > 0 AS is_counted, NOT ${wasThere('k.updated_at', '$4')} AS has_changed,
         (SELECT j.seq FROM ${stagedJobs} AS j
           WHERE j.scope = $1 AND j.key_id = k.id AND j.dead_at IS NULL LIMIT 1) IS NOT NULL AS has_jobs,
         (SELECT max(${epochMs('e.created_at')}) FROM ${effects} AS e
           WHERE e.scope = $1 AND e.key = k.key AND e.undone_at IS NULL
             AND (e.created_at + interval '0') > (${NOW} - ${msInterval('$5')})) AS recent_ms,
         (SELECT max(${epochMs('i.created_at')}) FROM ${interventions} AS i
           WHERE i.scope = $1 AND i.key_id = k.id AND i.action = 'answer'
             AND (i.created_at + interval '0') > (${NOW} - ${msInterval('$5')})) AS answered_ms,
         CASE WHEN ${isInDoubt('k.trail')} AND k.updated_at > (${NOW} - ${msInterval('$5')})
              THEN ${epochMs('k.updated_at')} END AS doubtful_ms
    FROM ${keys} AS k
   WHERE k.scope = $1 AND k.key > $2 AND ($3::text IS NULL OR k.key = $3)
     AND ${wasThere('k.created_at', '$4')}
   ORDER BY k.key LIMIT $6::integer`,
)

/** A page of the keys of a scope, after the last one of the page before. */
export async function findKeysToErase(
  store: Store,
  of: ErasedScope,
  after: string,
  limit: number,
): Promise<KeyToErase[]> {
  const values = [of.scope, after, of.key, of.beganMs, of.windowMs, limit]
  const { rows } = await findKeysToEraseStatement(store, values)
  return rows.map((row) => ({
    id: row['id'] ?? '',
    key: row['key'] ?? '',
    status: row['status'] as KeyToErase['status'],
    hasChanged: row['has_changed'] === 't',
    hasUndeliveredJobs: row['has_jobs'] === 't',
    isCounted: row['is_counted'] === 't',
    recentEffectMs: latest(row['recent_ms'], row['answered_ms'], row['doubtful_ms']),
  }))
}

function latest(...moments: readonly (string | null | undefined)[]): number | null {
  const known = moments.flatMap((moment) => (moment == null ? [] : [Number(moment)]))
  return known.length === 0 ? null : Math.max(...known)
}
