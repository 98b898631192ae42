import { unnested } from '../statement.js'

/** What names a job's row: numbered within its key, and found in one place where tables are divided by scope. */
export interface JobName {
  readonly scope: string
  readonly keyId: string
  readonly seq: number
}

/** Jobs that are named by three lists, which are the parameters $1 to $3. `more`: what else is known of each. */
export const namedJobs = (more: Readonly<Record<string, string>> = {}): string =>
  `${unnested('$1::text[]', '$2::uuid[]', '$3::bigint[]', ...Object.values(more))}
           AS named (${['scope', 'key_id', 'seq', ...Object.keys(more)].join(', ')})`

/** The array is for the planner, which would rather read a small table as a whole than look up a hundred jobs. */
export const IS_NAMED = `j.scope = named.scope AND j.key_id = named.key_id AND j.seq = named.seq
     AND j.key_id = ANY ($2::uuid[])`

export function namesOf(jobs: readonly JobName[]): unknown[] {
  return [jobs.map(({ scope }) => scope), jobs.map(({ keyId }) => keyId), jobs.map(({ seq }) => seq)]
}
