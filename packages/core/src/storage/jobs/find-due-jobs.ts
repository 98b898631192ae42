import type { Claim } from './claim-jobs.js'
import { isDue, isSuspect } from './claiming.js'
import type { JobName } from './job-name.js'
import { readAllShards } from '../schema/read-all-shards.js'
import { defineStatement, epochMs, type Store } from '../statement.js'

/** A job that is due and free. */
export interface DueJob extends JobName {
  readonly isSuspect: boolean
}

const findDueJobsStatement = defineStatement(
  'find_due_jobs',
  (tables) => `
  SELECT j.scope, j.key_id, j.seq, ${epochMs('j.run_after')} AS run_after_ms, ${isSuspect('$1', '$4')} AS is_suspect
    FROM ${tables.stagedJobs} AS j
   WHERE ${isDue(tables, '$1', '$2')}
   ORDER BY j.run_after LIMIT $3::integer`,
)

/** Finds jobs that a claim would take, those that have been due longest first. It locks nothing, so they may be gone by then. */
export async function findDueJobs(store: Store, claim: Omit<Claim, 'forMs'>): Promise<DueJob[]> {
  const { id, names, limit, aloneAfter } = claim
  const { stagedJobs } = store.tables
  const rows = await readAllShards(findDueJobsStatement, store, [id, names, limit, aloneAfter], stagedJobs)
  return rows
    .toSorted((a, b) => Number(a['run_after_ms']) - Number(b['run_after_ms']))
    .slice(0, limit)
    .map((row) => ({
      scope: row['scope'] ?? '',
      keyId: row['key_id'] ?? '',
      seq: Number(row['seq']),
      isSuspect: row['is_suspect'] === 't',
    }))
}
