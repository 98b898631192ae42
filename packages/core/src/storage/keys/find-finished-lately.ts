import { readTrail, type TrailEntry } from './trail.js'
import { defineStatement, epochMs, msInterval, NOW, type Store } from '../statement.js'

/** A key that finished a moment ago, and when it got where. */
export interface FinishedLately {
  readonly pipeline: string
  readonly version: number
  readonly createdMs: number
  readonly trail: readonly TrailEntry[]
}

/**
 * The index knows when a finished key expires: it finished that long before as its pipeline keeps keys. Keys that somebody keeps for longer
 * are left out, and so are those whose pipeline kept them for another time then.
 */
const findFinishedLatelyStatement = defineStatement(
  'find_finished_lately',
  ({ keys }) => `
  SELECT k.pipeline, k.version, ${epochMs('k.created_at')} AS created_ms, k.trail FROM ${keys} AS k
   WHERE k.status = 'finished' AND k.expires_at > ((${NOW} + ${msInterval('$2')}) - ${msInterval('$3')})
     AND k.expires_at <= (${NOW} + ${msInterval('$2')}) AND k.pipeline = ANY ($1::text[])
   ORDER BY k.expires_at DESC LIMIT $4::integer`,
)

/** Keys of these pipelines, all of which keep finished keys for as long, that finished within the last `forMs`: the latest first. */
export async function findFinishedLately(
  store: Store,
  pipelines: readonly string[],
  retentionMs: number,
  forMs: number,
  limit: number,
): Promise<FinishedLately[]> {
  const { rows } = await findFinishedLatelyStatement(store, [pipelines, retentionMs, forMs, limit])
  return rows.map((row) => ({
    pipeline: row['pipeline'] ?? '',
    version: Number(row['version']),
    createdMs: Number(row['created_ms']),
    trail: readTrail(row['trail'] ?? '[]'),
  }))
}
