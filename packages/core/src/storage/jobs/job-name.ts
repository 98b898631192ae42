import { eachGiven, eachOf } from '../statement.js'
import type { Tables } from '../tables.js'

/** What names a job's row: numbered within its key, and found in one place where tables are divided by scope. */
export interface JobName {
  readonly scope: string
  readonly keyId: string
  readonly seq: number
}

/** Jobs that were found before. */
export const eachJobOf = (tables: Tables, found: string, more: readonly string[] = []): string =>
  eachOf(tables, found, ['scope', 'key_id', 'seq', ...more])

/** Jobs that are named by three lists, which are the parameters $1 to $3. `more`: what else is known of each. */
export const eachGivenJob = (tables: Tables, more: Readonly<Record<string, string>> = {}): string =>
  eachGiven(tables, { scope: '$1::text[]', key_id: '$2::uuid[]', seq: '$3::bigint[]', ...more })

/** The row `j` is the one that is named. */
export const IS_THAT_JOB = 'j.scope = each.scope AND j.key_id = each.key_id AND j.seq = each.seq'

export function namesOf(jobs: readonly JobName[]): unknown[] {
  return [jobs.map(({ scope }) => scope), jobs.map(({ keyId }) => keyId), jobs.map(({ seq }) => seq)]
}
