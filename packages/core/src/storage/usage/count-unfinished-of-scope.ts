import { defineStatement, type Store } from '../statement.js'
import type { Tables } from '../tables.js'

/** How many unfinished keys a scope has, up to a limit. */
export const unfinishedOf = ({ keys }: Tables, scope: string, limit: string): string =>
  `SELECT count(*) AS n FROM (
     SELECT 1 FROM ${keys} AS k WHERE k.scope = ${scope} AND k.status <> 'finished' LIMIT ${limit}
   ) AS counted`

const countUnfinishedOfScopeStatement = defineStatement('count_unfinished_of_scope', (tables) =>
  unfinishedOf(tables, '$1', '$2::integer'),
)

/** For tables over servers, where a reservation cannot count them by itself. */
export async function countUnfinishedOfScope(store: Store, scope: string, limit: number): Promise<number> {
  const { rows } = await countUnfinishedOfScopeStatement(store, [scope, limit], 'read')
  return Number(rows[0]?.['n'])
}
