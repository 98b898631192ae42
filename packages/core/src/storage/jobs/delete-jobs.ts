import { defineStatement, type Store } from '../statement.js'
import { eachGivenJob, IS_THAT_JOB, type JobName, namesOf } from './job-name.js'

const deleteJobsStatement = defineStatement(
  'delete_jobs',
  ({ stagedJobs, ofOneShard }) => `
  DELETE FROM ${stagedJobs} AS j USING ${eachGivenJob()}
   WHERE ${IS_THAT_JOB}${ofOneShard('j')} AND j.claim = $4::uuid
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
