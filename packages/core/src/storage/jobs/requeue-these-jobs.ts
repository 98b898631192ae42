import { CHOSEN_COLUMNS, requeueing, type Requeueing } from './requeueing.js'
import { defineStatement, type Store } from '../statement.js'

const requeueTheseJobsStatement = defineStatement(
  'requeue_these_jobs',
  requeueing(
    ({ stagedJobs }) => `
    SELECT ${CHOSEN_COLUMNS} FROM ${stagedJobs} AS j
     WHERE j.id = ANY ($4::uuid[]) AND j.dead_at IS NOT NULL FOR UPDATE OF j SKIP LOCKED`,
  ),
)

/** Has those of these jobs that are dead delivered again; returns how many. */
export async function requeueTheseJobs(
  store: Store,
  { actor, reason, givenJson }: Requeueing,
  jobIds: readonly string[],
): Promise<number> {
  const { rows } = await requeueTheseJobsStatement(store, [actor, reason, givenJson, jobIds])
  return rows.length
}
