import { JOBS_READ_PER_LOOK } from '../../limits.js'
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

/** Finds jobs that are due, those that have been due longest first. It locks nothing, so they may be gone by then. */
export async function findDueJobs(
  store: Store,
  { id, names, aloneAfter }: Pick<Claim, 'id' | 'names' | 'aloneAfter'>,
): Promise<DueJob[]> {
  const { stagedJobs } = store.tables
  const values = [id, names, JOBS_READ_PER_LOOK, aloneAfter]
  const rows = await readAllShards(findDueJobsStatement, store, values, stagedJobs)
  return rows
    .toSorted((a, b) => Number(a['run_after_ms']) - Number(b['run_after_ms']))
    .slice(0, JOBS_READ_PER_LOOK)
    .map(readDueJob)
}

export function readDueJob(row: Readonly<Record<string, string | null>>): DueJob {
  return {
    scope: row['scope'] ?? '',
    keyId: row['key_id'] ?? '',
    seq: Number(row['seq']),
    isSuspect: row['is_suspect'] === 't',
  }
}
