import { boundedBy, defineStatement, type Store } from '../statement.js'

const deleteJobsStatement = defineStatement(
  'delete_jobs',
  ({ stagedJobs }) => `
  DELETE FROM ${stagedJobs} AS j USING ${boundedBy('$3')}
   WHERE j.id = ANY ($1::uuid[]) AND j.claim = $2::uuid
  RETURNING j.id`,
)

/**
 * Deletes exactly what was delivered under this claim. Returns their ids, without those that somebody else has claimed
 * since.
 */
export async function deleteJobs(
  store: Store,
  claimId: string,
  jobIds: readonly string[],
  lockTimeoutMs: number,
): Promise<string[]> {
  const { rows } = await deleteJobsStatement(store, [jobIds, claimId, String(lockTimeoutMs)])
  return rows.map((row) => row['id'] ?? '')
}
