import { boundedBy, defineStatement, msInterval, type Store, unnested } from '../statement.js'

/** A delivery that failed. */
export interface FailedJob {
  readonly id: string
  readonly afterMs: number
  readonly lastError: string
  readonly dead: boolean
}

/** The claim stays, but without its end, so that a repeat whose first answer got lost finds its jobs. */
const returnJobsStatement = defineStatement(
  'return_jobs',
  ({ stagedJobs }) => `
  UPDATE ${stagedJobs} AS j
     SET claim_until = NULL, run_after = clock_timestamp() + ${msInterval('f.after_ms')},
         last_error = f.last_error, dead_at = CASE WHEN f.dead THEN clock_timestamp() END
    FROM ${unnested('$1::uuid[]', '$2::double precision[]', '$3::text[]', '$4::boolean[]')}
           AS f (id, after_ms, last_error, dead),
         ${boundedBy('$6')}
   WHERE j.id = f.id AND j.claim = $5::uuid
  RETURNING j.id`,
)

/** Gives claimed jobs back, to be delivered later or not at all. Returns the ids of those that were still ours. */
export async function returnJobs(
  store: Store,
  claimId: string,
  jobs: readonly FailedJob[],
  lockTimeoutMs: number,
): Promise<string[]> {
  const { rows } = await returnJobsStatement(store, [
    jobs.map((job) => job.id),
    jobs.map((job) => job.afterMs),
    jobs.map((job) => job.lastError),
    jobs.map((job) => job.dead),
    claimId,
    String(lockTimeoutMs),
  ])
  return rows.map((row) => row['id'] ?? '')
}
