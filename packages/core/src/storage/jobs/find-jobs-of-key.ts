import { JOB_COLUMNS, type JobRow, readJobRow } from './job-row.js'
import { defineStatement, type Store } from '../statement.js'

/** In two parts, because live jobs and dead jobs have an index each. */
const findJobsOfKeyStatement = defineStatement(
  'find_jobs_of_key',
  ({ stagedJobs }) => `
  (SELECT ${JOB_COLUMNS} FROM ${stagedJobs} AS j
    WHERE j.key_id = $1::uuid AND j.dead_at IS NULL ORDER BY j.seq LIMIT $2::integer)
  UNION ALL
  (SELECT ${JOB_COLUMNS} FROM ${stagedJobs} AS j
    WHERE j.key_id = $1::uuid AND j.dead_at IS NOT NULL ORDER BY j.dead_at LIMIT $2::integer)`,
)

/**
 * Jobs that a key's phases staged and that have not been delivered: first those to come, in their order, then the dead
 * ones.
 */
export async function findJobsOfKey(store: Store, keyId: string, limit: number): Promise<JobRow[]> {
  const { rows } = await findJobsOfKeyStatement(store, [keyId, limit])
  return rows.map(readJobRow)
}
