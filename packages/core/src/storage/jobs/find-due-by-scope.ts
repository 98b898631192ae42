import { JOBS_READ_PER_LOOK } from '../../limits.js'
import type { Claim } from './claim-jobs.js'
import { isDue, isSuspect } from './claiming.js'
import { type DueJob, readDueJob } from './find-due-jobs.js'
import type { ScopePage, ScopePlace } from '../scope-place.js'
import { defineStatement, momentText, type Store } from '../statement.js'

const PLACE = 'j.scope, j.run_after, j.key_id, j.seq'

/** Goes from scope to scope by the index, past those of which nothing is wanted, and reads from there. */
const findDueByScopeStatement = defineStatement(
  'find_due_by_scope',
  (tables) => `
  WITH RECURSIVE met AS (
    (SELECT j.scope FROM ${tables.stagedJobs} AS j
      WHERE j.dead_at IS NULL AND (${PLACE}) > ($4::text, $5::timestamptz, $6::uuid, $7::bigint)
      ORDER BY ${PLACE} LIMIT 1)
    UNION ALL
    SELECT (SELECT j.scope FROM ${tables.stagedJobs} AS j WHERE j.dead_at IS NULL AND j.scope > met.scope
             ORDER BY j.scope LIMIT 1)
      FROM met WHERE met.scope = ANY ($8::text[])
  ), start AS (
    SELECT met.scope, CASE WHEN met.scope = $4::text THEN $5::timestamptz ELSE '-infinity'::timestamptz END AS run_after
      FROM met WHERE NOT met.scope = ANY ($8::text[])
  )
  SELECT j.scope, j.key_id, j.seq, ${momentText('j.run_after')} AS run_after, ${isSuspect('$1', '$3')} AS is_suspect,
         (${isDue(tables, '$1', '$2')}) AS is_due
    FROM ${tables.stagedJobs} AS j
   WHERE j.dead_at IS NULL
     AND (${PLACE}) > ((SELECT scope FROM start), (SELECT run_after FROM start), $6::uuid, $7::bigint)
   ORDER BY ${PLACE} LIMIT ${JOBS_READ_PER_LOOK}`,
)

/**
 * Due jobs, scope by scope and oldest first in each, from a place on, or from the next scope on of which some are wanted. It locks
 * nothing, and reads so many rows, due or not.
 */
export async function findDueByScope(
  store: Store,
  { id, names, aloneAfter, without }: Pick<Claim, 'id' | 'names' | 'aloneAfter' | 'without'>,
  after: ScopePlace,
): Promise<ScopePage<DueJob>> {
  const values = [id, names, aloneAfter, after.scope, after.at, after.id, after.seq, without]
  const { rows } = await findDueByScopeStatement(store, values)
  const end = rows.length < JOBS_READ_PER_LOOK ? undefined : rows.at(-1)
  const last = end && {
    scope: end['scope'] ?? '',
    at: end['run_after'] ?? '',
    id: end['key_id'] ?? '',
    seq: Number(end['seq']),
  }
  return { due: rows.filter((row) => row['is_due'] === 't').map(readDueJob), last: last ?? null }
}
