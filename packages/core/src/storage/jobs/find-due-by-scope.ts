import { JOBS_READ_PER_LOOK } from '../../limits.js'
import type { Claim } from './claim-jobs.js'
import { isDue, isSuspect } from './claiming.js'
import { type DueJob, readDueJob } from './find-due-jobs.js'
import type { ScopePage, ScopePlace } from '../scope-place.js'
import { defineStatement, momentText, type Store } from '../statement.js'

const findDueByScopeStatement = defineStatement(
  'find_due_by_scope',
  (tables) => `
  SELECT j.scope, j.key_id, j.seq, ${momentText('j.run_after')} AS run_after, ${isSuspect('$1', '$3')} AS is_suspect,
         (${isDue(tables, '$1', '$2')}) AS is_due
    FROM ${tables.stagedJobs} AS j
   WHERE j.dead_at IS NULL AND (j.scope, j.run_after, j.key_id, j.seq) > ($4::text, $5::timestamptz, $6::uuid, $7::bigint)
   ORDER BY j.scope, j.run_after, j.key_id, j.seq LIMIT ${JOBS_READ_PER_LOOK}`,
)

/** Due jobs, scope by scope and oldest first in each, from a place on. It locks nothing, and reads so many rows, due or not. */
export async function findDueByScope(
  store: Store,
  { id, names, aloneAfter }: Pick<Claim, 'id' | 'names' | 'aloneAfter'>,
  after: ScopePlace,
): Promise<ScopePage<DueJob>> {
  const values = [id, names, aloneAfter, after.scope, after.at, after.id, after.seq]
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
