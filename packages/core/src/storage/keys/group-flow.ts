import { bothUnfinished, CONDITION } from './unfinished.js'
import { defineStatement, epochMs, type Store } from '../statement.js'

/** Unfinished keys of one pipeline, version and recovery point. */
export interface FlowRow {
  readonly pipeline: string
  readonly version: number
  readonly recoveryPoint: string
  readonly held: number
  readonly backingOff: number
  readonly unattended: number
  readonly stuck: number
  readonly oldestCreatedMs: number
}

/** Cheaper than `group_unfinished`, which reads every trail: this one is asked again and again. */
const groupFlowStatement = defineStatement(
  'group_flow',
  (tables) => `
  SELECT g.pipeline, g.version, g.recovery_point, ${epochMs('min(g.oldest)')} AS oldest_created_ms,
         coalesce(sum(g.count) FILTER (WHERE g.condition = 'held'), 0) AS held,
         coalesce(sum(g.count) FILTER (WHERE g.condition = 'backing_off'), 0) AS backing_off,
         coalesce(sum(g.count) FILTER (WHERE g.condition = 'unattended'), 0) AS unattended,
         coalesce(sum(g.count) FILTER (WHERE g.condition = 'stuck'), 0) AS stuck
    FROM (SELECT k.pipeline, k.version, k.recovery_point, ${CONDITION} AS condition, count(*) AS count,
                 min(k.created_at) AS oldest
            FROM ${bothUnfinished(tables)}
           GROUP BY k.pipeline, k.version, k.recovery_point, condition) AS g
   GROUP BY g.pipeline, g.version, g.recovery_point
   ORDER BY g.pipeline, g.version, g.recovery_point LIMIT $1::integer`,
)

/** Unfinished keys by where they stand, up to so many groups. */
export async function groupFlow(store: Store, limit: number): Promise<FlowRow[]> {
  const { rows } = await groupFlowStatement(store, [limit])
  return rows.map((row) => ({
    pipeline: row['pipeline'] ?? '',
    version: Number(row['version']),
    recoveryPoint: row['recovery_point'] ?? '',
    held: Number(row['held']),
    backingOff: Number(row['backing_off']),
    unattended: Number(row['unattended']),
    stuck: Number(row['stuck']),
    oldestCreatedMs: Number(row['oldest_created_ms']),
  }))
}
