import type { JobName } from './job-name.js'
import { readAllShards } from '../schema/read-all-shards.js'
import { defineStatement, type Store } from '../statement.js'

const findDeadJobNamesStatement = defineStatement(
  'find_dead_job_names',
  ({ stagedJobs }) => `
  SELECT j.id, j.scope, j.key_id, j.seq FROM ${stagedJobs} AS j
   WHERE j.dead_at IS NOT NULL AND ($1::double precision IS NULL OR j.dead_at <= to_timestamp($1::double precision / 1000))
     AND ($2::text IS NULL OR j.name = $2) AND ($3::uuid[] IS NULL OR j.id = ANY ($3::uuid[]))
   ORDER BY j.dead_at LIMIT $4::integer`,
)

/** What names a dead job, in its table and to people. */
export interface DeadJobName extends JobName {
  readonly id: string
}

/** Which dead jobs are meant. Null stands for any. */
export interface DeadJobFilter {
  readonly deadByMs: number | null
  readonly name: string | null
  readonly ids: readonly string[] | null
  readonly limit: number
}

/** Finds what names dead jobs. It locks nothing. */
export async function findDeadJobNames(store: Store, filter: DeadJobFilter): Promise<DeadJobName[]> {
  const values = [filter.deadByMs, filter.name, filter.ids, filter.limit]
  const rows = await readAllShards(findDeadJobNamesStatement, store, values, store.tables.stagedJobs)
  return rows.slice(0, filter.limit).map((row) => ({
    id: row['id'] ?? '',
    scope: row['scope'] ?? '',
    keyId: row['key_id'] ?? '',
    seq: Number(row['seq']),
  }))
}
