import { eachGiven, eachOf } from '../statement.js'
import type { Tables } from '../tables.js'

/** What names a key's row, and leads to one partition where the tables are divided. */
export interface KeyName {
  readonly scope: string
  readonly key: string
}

/** Keys that were found before, or that are named by two lists, which are the parameters $1 and $2. */
export const eachKeyOf = (tables: Tables, found: string): string => eachOf(tables, found, ['scope', 'key'])
export const eachGivenKey = (tables: Tables): string =>
  eachGiven(tables, { scope: '$1::text[]', key: '$2::text[]' })

/** The row `k` is the one that is named. */
export const IS_THAT_KEY = 'k.scope = each.scope AND k.key = each.key'

export function namesOf(keys: readonly KeyName[]): unknown[] {
  return [keys.map(({ scope }) => scope), keys.map(({ key }) => key)]
}
