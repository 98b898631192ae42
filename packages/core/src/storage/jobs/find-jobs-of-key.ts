import { JOB_COLUMNS, type JobRow, readJobRow } from './job-row.js'
import { defineStatement, type Store } from '../statement.js'

const findJobsOfKeyStatement = defineStatement(
  'find_jobs_of_key',
  ({ stagedJobs }) => `
  SELECT ${JOB_COLUMNS} FROM ${stagedJobs} AS j
   WHERE j.scope = $1 AND j.key_id = $2::uuid ORDER BY j.seq LIMIT $3::integer`,
)

/** Jobs that a key's phases staged and that have not been delivered, in their order. */
export async function findJobsOfKey(
  store: Store,
  key: { readonly id: string; readonly scope: string },
  limit: number,
): Promise<JobRow[]> {
  const { rows } = await findJobsOfKeyStatement(store, [key.scope, key.id, limit])
  return rows.map((row) => readJobRow(row, store.tables))
}
