import { JOBS_READ_PER_LOOK } from '../../limits.js'
import {
  CLAIMED_COLUMNS,
  type ClaimedJob,
  claimedBy,
  isDue,
  isFree,
  isSuspect,
  readClaimedJobs,
} from './claiming.js'
import { eachJobOf, IS_THAT_JOB } from './job-name.js'
import { defineStatement, NOW, type Store } from '../statement.js'

/**
 * The oldest are read, without a lock. Of those that are due, the scopes take turns. More are chosen than are claimed, because another
 * relay may have chosen the same. There is always a row, which says whether there may be more.
 */
const claimJobsStatement = defineStatement(
  'claim_jobs',
  (tables) => `
  WITH read AS (
    SELECT j.scope, j.key_id, j.seq, j.run_after, j.name, j.dead_at, j.claim, j.claim_until, j.attempts
      FROM ${tables.stagedJobs} AS j
     WHERE j.dead_at IS NULL AND j.run_after <= ${NOW}
     ORDER BY j.run_after LIMIT ${JOBS_READ_PER_LOOK}
  ), due AS (
    SELECT j.scope, j.key_id, j.seq, j.run_after, j.scope = $9::text AS is_last, ${isSuspect('$1', '$5')} AS is_suspect,
           row_number() OVER (PARTITION BY j.scope ORDER BY j.run_after, j.key_id, j.seq) AS turn,
           min(j.run_after) OVER (PARTITION BY j.scope) AS since
      FROM read AS j
     WHERE ${isDue(tables, '$1', '$3', { oneByOne: true })} AND NOT j.scope = ANY ($6::text[])
  ), ranked AS (
    SELECT scope, key_id, seq, is_suspect, dense_rank() OVER scopes AS nth_scope, rank() OVER scopes AS nth_of_scopes,
           row_number() OVER turns AS nth, first_value(is_suspect) OVER turns AS is_alone
      FROM due WHERE $8::boolean OR NOT is_suspect
    WINDOW scopes AS (ORDER BY is_last, since, scope), turns AS (ORDER BY turn, is_last, run_after, key_id, seq)
  ), chosen AS (
    SELECT scope, key_id, seq, nth FROM ranked
     WHERE CASE WHEN is_alone THEN nth = 1 ELSE NOT is_suspect AND nth_scope <= $7::integer
                  AND (nth_scope <= $10::integer OR nth_of_scopes <= $4::integer) END
  ), locked AS (
    SELECT j.scope, j.key_id, j.seq FROM ${tables.stagedJobs} AS j, ${eachJobOf(tables, 'chosen', ['nth'])}
     WHERE ${IS_THAT_JOB} AND ${isFree('$1', true)}
     ORDER BY each.nth LIMIT $4::integer FOR UPDATE OF j SKIP LOCKED
  ), claimed AS (
    UPDATE ${tables.stagedJobs} AS j SET ${claimedBy('$1', '$2')}
      FROM ${eachJobOf(tables, 'locked')}
     WHERE ${IS_THAT_JOB}
    RETURNING ${CLAIMED_COLUMNS}
  )
  SELECT seen.is_full, seen.is_alone, seen.scopes, claimed.*
    FROM (SELECT (SELECT count(*) FROM read) >= ${JOBS_READ_PER_LOOK} AS is_full,
                 (SELECT bool_or(is_alone) FROM ranked) AS is_alone, (SELECT max(nth_scope) FROM ranked) AS scopes) AS seen
    LEFT JOIN claimed ON true`,
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
  /** False while something else is under way: then such jobs are left for later. */
  readonly mayBeAlone: boolean
  /** Scopes of which none are claimed. */
  readonly without: readonly string[]
  /** Of how many scopes there have to be some, if that many have any. */
  readonly places: number
  /** Of how many scopes at most: of more than `places` only if those have fewer jobs than `limit`. */
  readonly scopes: number
  /** The scope whose turn comes last. Null: none. */
  readonly last: string | null
}

/** What a claim got. */
export interface Claimed {
  readonly jobs: readonly ClaimedJob[]
  /** The job was claimed alone, and is to be delivered alone. */
  readonly isAlone: boolean
  /** Whether nothing is left that could be claimed before a delivery has ended. */
  readonly isRestUnderWay: boolean
  /** Whether all that is due was looked at. If not, others may have been behind what was. */
  readonly sawAll: boolean
  /** Whether there may be scopes that have jobs which are due, and of which none were claimed. */
  readonly areLeftOut: boolean
}

/**
 * Claims jobs that are due, at most one of each key, for a limited time, so that scopes take turns. Other claims do not wait for this
 * one.
 */
export async function claimJobs(store: Store, claim: Claim): Promise<Claimed> {
  const { id, forMs, names, limit, aloneAfter, without, scopes, mayBeAlone, last, places } = claim
  const values = [id, forMs, names, limit, aloneAfter, without, scopes, mayBeAlone, last ?? '', places]
  const { rows } = await claimJobsStatement(store, values)
  const jobs = readClaimedJobs(
    rows.filter((row) => row['id'] !== null),
    store.tables,
  )
  const [first] = rows
  const sawAll = first?.['is_full'] !== 't'
  const scopesSeen = Number(first?.['scopes'] ?? 0)
  return {
    jobs,
    isAlone: first?.['is_alone'] === 't',
    isRestUnderWay: false,
    sawAll,
    areLeftOut: !sawAll || scopesSeen > scopesOf(jobs).size,
  }
}

export const scopesOf = (jobs: readonly { readonly scope: string }[]): ReadonlySet<string> =>
  new Set(jobs.map(({ scope }) => scope))
