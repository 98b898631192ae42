import { JOB_COLUMNS, type JobRow, readJobRow } from './job-row.js'
import { defineStatement, type Store } from '../statement.js'

const findDeadJobsStatement = defineStatement(
  'find_dead_jobs',
  ({ stagedJobs }) => `
  SELECT ${JOB_COLUMNS} FROM ${stagedJobs} AS j
   WHERE j.dead_at IS NOT NULL AND ($1::text IS NULL OR j.name = $1)
   ORDER BY j.dead_at LIMIT $2::integer`,
)

/** Jobs that were given up, oldest first; of any name where `name` is null. */
export async function findDeadJobs(store: Store, name: string | null, limit: number): Promise<JobRow[]> {
  const { rows } = await findDeadJobsStatement(store, [name, limit])
  return rows.map((row) => readJobRow(row, store.tables))
}
