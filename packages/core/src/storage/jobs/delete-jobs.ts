import { defineStatement, type Store } from '../statement.js'
import { eachGivenJob, IS_THAT_JOB, type JobName, namesOf } from './job-name.js'

const deleteJobsStatement = defineStatement(
  'delete_jobs',
  (tables) => `
  DELETE FROM ${tables.stagedJobs} AS j USING ${eachGivenJob(tables)}
   WHERE ${IS_THAT_JOB}${tables.ofOneShard('j')} AND j.claim = $4::uuid
  RETURNING j.id`,
)

/**
 * Deletes exactly what was delivered under this claim. Returns their ids, without those that somebody else has claimed
 * since.
 */
export async function deleteJobs(store: Store, claimId: string, jobs: readonly JobName[]): Promise<string[]> {
  const { rows } = await deleteJobsStatement(store, [...namesOf(jobs), claimId])
  return rows.map((row) => row['id'] ?? '')
}
