import type { PawlError } from '../../errors.js'
import { Opening } from '../sealed-values.js'
import { epochMs, epochSeconds, msInterval, NOW } from '../statement.js'
import type { Tables } from '../tables.js'

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
  readonly traceparent: string | null
  /** Why its payload could not be opened: then it must not be delivered. Null if it could. */
  readonly sealed: PawlError | null
}

/**
 * For jobs that are looked up by their names: so written that the planner does not recognize the condition of an index. A tenant with very
 * many jobs, which the planner does not know of yet, would have all of them read for each.
 */
const notDead = (of: string): string =>
  `coalesce(${of}.dead_at, 'infinity'::timestamptz) = 'infinity'::timestamptz`

/** Whether the time of the job `j` has come, and no other claim has it. */
export const isFree = (claim: string, isNamed = false): string => `
           ${isNamed ? notDead('j') : 'j.dead_at IS NULL'} AND j.run_after <= ${NOW}
       AND (j.claim_until IS NULL OR j.claim_until <= ${NOW} OR j.claim = ${claim}::uuid)`

/**
 * Whether the job `j` is due and free. A job waits for earlier jobs of its key, but not for one that was put off on purpose
 * and has never been due. Jobs that this claim already has are claimed again, so that a repeat whose first answer got lost finds its
 * jobs. `claim` and `names` are parameters. `oneByOne`: earlier jobs are looked up for each job, and not all jobs read once for all.
 */
export const isDue = (
  { stagedJobs, ofOneShard }: Tables,
  claim: string,
  names: string,
  { isNamed = false, oneByOne = false } = {},
): string => `
           ${isFree(claim, isNamed)}
       AND (${names}::text[] IS NULL OR j.name = ANY (${names}::text[]))
       AND NOT EXISTS (
         SELECT 1 FROM ${stagedJobs} AS earlier
          WHERE earlier.scope = j.scope AND earlier.key_id = j.key_id AND earlier.seq < j.seq AND ${notDead('earlier')}
            AND (earlier.attempts > 0 OR earlier.run_after <= ${NOW})${isNamed ? ofOneShard('earlier') : ''}
            AND (${names}::text[] IS NULL OR earlier.name = ANY (${names}::text[]))${oneByOne ? ' OFFSET 0' : ''})`

/**
 * A job whose deliveries repeatedly did not end may kill whoever delivers it, or may have been delivered together with one that
 * does. It is claimed alone, so that from then on it uses up no other job's attempts.
 */
export const isSuspect = (claim: string, aloneAfter: string): string =>
  `j.attempts >= ${aloneAfter}::integer AND j.claim_until IS NOT NULL AND j.claim <> ${claim}::uuid`

/** The claim itself raises `attempts`, so that a job that kills whoever delivers it is given up as well. */
export const claimedBy = (
  claim: string,
  forMs: string,
): string => `claim = ${claim}::uuid, claim_until = ${NOW} + ${msInterval(forMs)},
         attempts = j.attempts + CASE WHEN j.claim = ${claim}::uuid THEN 0 ELSE 1 END`

export const CLAIMED_COLUMNS = `j.id, j.scope, j.name, j.payload, j.key_id, j.attempts, j.seq,
         ${epochMs('j.created_at')} AS created_ms, ${epochSeconds('j.created_at')} AS created_seconds, j.traceparent`

/** In the order of their creation: an UPDATE returns its rows in no particular order. */
export function readClaimedJobs(
  rows: readonly Readonly<Record<string, string | null>>[],
  tables: Tables,
): ClaimedJob[] {
  const inOrder = rows.toSorted((a, b) => Number(a['created_seconds']) - Number(b['created_seconds']))
  return inOrder.map((row) => {
    const [id, scope] = [row['id'] ?? '', row['scope'] ?? '']
    const opening = new Opening(tables, { id, scope })
    return {
      id,
      name: row['name'] ?? '',
      payloadJson: opening.json('payload', row['payload'] ?? '', 'null'),
      keyId: row['key_id'] ?? '',
      scope,
      seq: Number(row['seq']),
      attempts: Number(row['attempts']),
      createdMs: Number(row['created_ms']),
      traceparent: row['traceparent'] ?? null,
      sealed: opening.failed,
    }
  })
}
