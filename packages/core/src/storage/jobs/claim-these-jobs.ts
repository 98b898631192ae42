import type { Claim } from './claim-jobs.js'
import { CLAIMED_COLUMNS, type ClaimedJob, claimedBy, isDue, readClaimedJobs } from './claiming.js'
import { eachGivenJob, IS_THAT_JOB, type JobName, namesOf } from './job-name.js'
import { defineStatement, type Store } from '../statement.js'

const claimTheseJobsStatement = defineStatement(
  'claim_these_jobs',
  (tables) => `
  WITH due AS (
    SELECT j.scope, j.key_id, j.seq FROM ${tables.stagedJobs} AS j, ${eachGivenJob(tables)}
     WHERE ${IS_THAT_JOB}${tables.ofOneShard('j')} AND ${isDue(tables, '$4', '$6', { isNamed: true })}
       FOR UPDATE OF j SKIP LOCKED
  )
  UPDATE ${tables.stagedJobs} AS j SET ${claimedBy('$4', '$5')}
    FROM due AS each
   WHERE ${IS_THAT_JOB}${tables.ofOneShard('j')}
  RETURNING ${CLAIMED_COLUMNS}`,
)

/** Claims those of these jobs that are still due and free. Over servers, all of them have to be in one shard. */
export async function claimTheseJobs(
  store: Store,
  jobs: readonly JobName[],
  { id, forMs, names }: Pick<Claim, 'id' | 'forMs' | 'names'>,
): Promise<ClaimedJob[]> {
  const { rows } = await claimTheseJobsStatement(store, [...namesOf(jobs), id, forMs, names])
  return readClaimedJobs(rows, store.tables)
}
