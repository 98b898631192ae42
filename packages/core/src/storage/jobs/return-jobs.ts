import { sealText } from '../sealed-values.js'
import { CLOCK, defineStatement, momentIn, type Store } from '../statement.js'
import { eachGivenJob, IS_THAT_JOB, type JobName, namesOf } from './job-name.js'

/** A job that is given back. */
export interface ReturnedJob extends JobName {
  readonly id: string
  /** Null: it stays due, in its place among the others. */
  readonly afterMs: number | null
  /** Null: nothing has failed, and what failed before is kept. */
  readonly lastError: string | null
  readonly dead: boolean
  /** Deliveries that count. */
  readonly attempts: number
}

const FAILED = {
  after_ms: '$4::double precision[]',
  last_error: '$5::text[]',
  dead: '$6::boolean[]',
  attempts: '$8::integer[]',
}

/** The claim stays, but without its end, so that a repeat whose first answer got lost finds its jobs. */
const returnJobsStatement = defineStatement(
  'return_jobs',
  (tables) => `
  UPDATE ${tables.stagedJobs} AS j
     SET claim_until = NULL, attempts = each.attempts,
         run_after = coalesce(${momentIn('each.after_ms / 1000')}, j.run_after),
         last_error = coalesce(each.last_error, j.last_error), dead_at = CASE WHEN each.dead THEN ${momentIn('0')} END
    FROM ${eachGivenJob(tables, FAILED)}, ${CLOCK}
   WHERE ${IS_THAT_JOB}${tables.ofOneShard('j')} AND j.claim = $7::uuid
  RETURNING j.id`,
)

/** Gives claimed jobs back, to be delivered later or not at all. Returns the ids of those that were still ours. */
export async function returnJobs(
  store: Store,
  claimId: string,
  jobs: readonly ReturnedJob[],
): Promise<string[]> {
  const { rows } = await returnJobsStatement(store, [
    ...namesOf(jobs),
    jobs.map((job) => job.afterMs),
    jobs.map(({ id, scope, lastError }) =>
      lastError === null ? null : sealText(store.tables, { id, scope }, 'last_error', lastError),
    ),
    jobs.map((job) => job.dead),
    claimId,
    jobs.map((job) => job.attempts),
  ])
  return rows.map((row) => row['id'] ?? '')
}
