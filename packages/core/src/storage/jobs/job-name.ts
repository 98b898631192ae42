import { eachGiven, eachOf } from '../statement.js'

/** What names a job's row: numbered within its key, and found in one place where tables are divided by scope. */
export interface JobName {
  readonly scope: string
  readonly keyId: string
  readonly seq: number
}

const NAME = ['scope', 'key_id', 'seq']

/** Jobs that were found before. */
export const eachJobOf = (found: string): string => `${eachOf(found, NAME)} AS named (${NAME.join(', ')})`

/** Jobs that are named by three lists, which are the parameters $1 to $3. `more`: what else is known of each. */
export const namedJobs = (more: Readonly<Record<string, string>> = {}): string =>
  `${eachGiven('$1::text[]', '$2::uuid[]', '$3::bigint[]', ...Object.values(more))}
           AS named (${[...NAME, ...Object.keys(more)].join(', ')})`

/** The row `j` is the one that is named. */
export const IS_NAMED = 'j.scope = named.scope AND j.key_id = named.key_id AND j.seq = named.seq'

export function namesOf(jobs: readonly JobName[]): unknown[] {
  return [jobs.map(({ scope }) => scope), jobs.map(({ keyId }) => keyId), jobs.map(({ seq }) => seq)]
}
