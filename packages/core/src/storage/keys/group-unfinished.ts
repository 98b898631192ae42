import { POINT_TEXT } from './point-text.js'
import { bothUnfinished, CONDITION } from './unfinished.js'
import { defineStatement, epochMs, type Store } from '../statement.js'

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

/** Unfinished keys grouped by where they stand, for one version or (null) for all. */
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
