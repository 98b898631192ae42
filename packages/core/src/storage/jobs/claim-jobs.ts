import { CLAIMED_COLUMNS, type ClaimedJob, claimedBy, isDue, isSuspect, readClaimedJobs } from './claiming.js'
import { eachJobOf, IS_THAT_JOB } from './job-name.js'
import { defineStatement, type Store } from '../statement.js'

const claimJobsStatement = defineStatement(
  'claim_jobs',
  (tables) => `
  WITH due AS (
    SELECT j.scope, j.key_id, j.seq, j.run_after, ${isSuspect('$1', '$5')} AS is_suspect
      FROM ${tables.stagedJobs} AS j
     WHERE ${isDue(tables, '$1', '$3')}
     ORDER BY j.run_after LIMIT $4::integer FOR UPDATE OF j SKIP LOCKED
  ), ranked AS (
    SELECT scope, key_id, seq, is_suspect, row_number() OVER oldest AS nth,
           first_value(is_suspect) OVER oldest AS is_alone
      FROM due WINDOW oldest AS (ORDER BY run_after, key_id, seq)
  ), claimed AS (
    SELECT scope, key_id, seq FROM ranked WHERE CASE WHEN is_alone THEN nth = 1 ELSE NOT is_suspect END
  )
  UPDATE ${tables.stagedJobs} AS j SET ${claimedBy('$1', '$2')}
    FROM ${eachJobOf(tables, 'claimed')}
   WHERE ${IS_THAT_JOB}
  RETURNING ${CLAIMED_COLUMNS}`,
)

/** How jobs are claimed. */
export interface Claim {
  readonly id: string
  readonly forMs: number
  /** Null stands for any name. */
  readonly names: readonly string[] | null
  readonly limit: number
  /** A job is claimed alone once this many of its deliveries were begun and the last one did not end. */
  readonly aloneAfter: number
}

/** Claims jobs that are due, at most one of each key, for a limited time. Other claims do not wait for this one. */
export async function claimJobs(store: Store, claim: Claim): Promise<ClaimedJob[]> {
  const { id, forMs, names, limit, aloneAfter } = claim
  const { rows } = await claimJobsStatement(store, [id, forMs, names, limit, aloneAfter])
  return readClaimedJobs(rows, store.tables)
}
