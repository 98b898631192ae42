import { eachJobOf, IS_THAT_JOB } from './job-name.js'
import { defineStatement, epochMs, msInterval, NOW, type Store } from '../statement.js'

/** A job that was claimed for delivery. */
export interface ClaimedJob {
  readonly id: string
  readonly name: string
  readonly payloadJson: string
  readonly keyId: string
  readonly scope: string
  readonly seq: number
  /** Deliveries that were begun, including this one. */
  readonly attempts: number
  readonly createdMs: number
}

/**
 * Compares rows only, and reads the clock in a subselect, so that the index can be used. A job waits for earlier jobs of
 * its key, but not for one that was put off on purpose and has never been due. The claim itself raises `attempts`, so
 * that a job that kills whoever delivers it is given up as well.
 *
 * A job whose deliveries repeatedly did not end may be such a job, or may have been delivered together with one. It is
 * claimed alone, so that from then on it uses up no other job's attempts.
 *
 * Jobs that this claim already has are claimed again, so that a repeat whose first answer got lost finds its jobs.
 */
const claimJobsStatement = defineStatement(
  'claim_jobs',
  ({ stagedJobs }) => `
  WITH due AS (
    SELECT j.scope, j.key_id, j.seq, j.run_after,
           j.attempts >= $5::integer AND j.claim_until IS NOT NULL AND j.claim <> $1::uuid AS is_suspect
      FROM ${stagedJobs} AS j
     WHERE j.dead_at IS NULL AND j.run_after <= ${NOW}
       AND (j.claim_until IS NULL OR j.claim_until <= ${NOW} OR j.claim = $1::uuid)
       AND ($3::text[] IS NULL OR j.name = ANY ($3::text[]))
       AND NOT EXISTS (
         SELECT 1 FROM ${stagedJobs} AS earlier
          WHERE earlier.scope = j.scope AND earlier.key_id = j.key_id AND earlier.seq < j.seq AND earlier.dead_at IS NULL
            AND (earlier.attempts > 0 OR earlier.run_after <= ${NOW})
            AND ($3::text[] IS NULL OR earlier.name = ANY ($3::text[])))
     ORDER BY j.run_after LIMIT $4::integer FOR UPDATE OF j SKIP LOCKED
  ), ranked AS (
    SELECT scope, key_id, seq, is_suspect, row_number() OVER oldest AS nth,
           first_value(is_suspect) OVER oldest AS is_alone
      FROM due WINDOW oldest AS (ORDER BY run_after, key_id, seq)
  ), claimed AS (
    SELECT scope, key_id, seq FROM ranked WHERE CASE WHEN is_alone THEN nth = 1 ELSE NOT is_suspect END
  )
  UPDATE ${stagedJobs} AS j
     SET claim = $1::uuid, claim_until = ${NOW} + ${msInterval('$2')},
         attempts = j.attempts + CASE WHEN j.claim = $1::uuid THEN 0 ELSE 1 END
    FROM ${eachJobOf('claimed')}
   WHERE ${IS_THAT_JOB}
  RETURNING j.id, j.scope, j.name, j.payload, j.key_id, j.attempts, j.seq, ${epochMs('j.created_at')} AS created_ms`,
)

/** Claims jobs that are due, at most one of each key, for a limited time. Other claims do not wait for this one. */
export async function claimJobs(
  store: Store,
  claim: {
    readonly id: string
    readonly forMs: number
    /** Null stands for any name. */
    readonly names: readonly string[] | null
    readonly limit: number
    /** A job is claimed alone once this many of its deliveries were begun and the last one did not end. */
    readonly aloneAfter: number
  },
): Promise<ClaimedJob[]> {
  const { id, forMs, names, limit, aloneAfter } = claim
  const { rows } = await claimJobsStatement(store, [id, forMs, names, limit, aloneAfter])
  // An UPDATE returns its rows in no particular order.
  const inOrder = rows.toSorted((a, b) => Number(a['created_ms']) - Number(b['created_ms']))
  return inOrder.map((row) => ({
    id: row['id'] ?? '',
    name: row['name'] ?? '',
    payloadJson: row['payload'] ?? '',
    keyId: row['key_id'] ?? '',
    scope: row['scope'] ?? '',
    seq: Number(row['seq']),
    attempts: Number(row['attempts']),
    createdMs: Number(row['created_ms']),
  }))
}
