import { CHOSEN_COLUMNS, requeueing, type Requeueing } from './requeueing.js'
import { defineStatement, type Store } from '../statement.js'

const requeueDeadJobsStatement = defineStatement(
  'requeue_dead_jobs',
  requeueing(
    ({ stagedJobs }) => `
    SELECT ${CHOSEN_COLUMNS} FROM ${stagedJobs} AS j
     WHERE j.dead_at <= to_timestamp($4::double precision / 1000) AND ($5::text IS NULL OR j.name = $5)
     ORDER BY j.dead_at LIMIT $6::integer FOR UPDATE OF j SKIP LOCKED`,
  ),
)

/** Has a batch of dead jobs delivered again, those of one name or (null) of any; returns how many. */
export async function requeueDeadJobs(
  store: Store,
  { actor, reason, givenJson }: Requeueing,
  which: { readonly deadByMs: number; readonly name: string | null; readonly limit: number },
): Promise<number> {
  const { deadByMs, name, limit } = which
  const { rows } = await requeueDeadJobsStatement(store, [actor, reason, givenJson, deadByMs, name, limit])
  return rows.length
}
