import { defineStatement, NOW, type Store } from '../statement.js'
import type { Tables } from '../tables.js'

/**
 * The key of an atomic handler that crashed waits for its client, and for nobody else. Nothing has come of it, and a client that does not
 * come back must not be refused for it until the completer forgets it.
 */
const COUNTS = `(k.kind = 'pipeline' OR k.status = 'stuck' OR k.lease_until > ${NOW})`

/** How many unfinished keys a scope has, up to a limit. `pipeline`: an expression that is null for all of them. */
export const unfinishedOf = (
  { keys }: Tables,
  scope: string,
  limit: string,
  pipeline: string | null,
): string =>
  `SELECT count(*) AS n FROM (
     SELECT 1 FROM ${keys} AS k WHERE k.scope = ${scope} AND k.status <> 'finished' AND ${COUNTS}${pipeline === null ? '' : ` AND k.pipeline = ${pipeline}`}
      LIMIT ${limit}
   ) AS counted`

const ofScope = defineStatement('count_unfinished_of_scope', (tables) =>
  unfinishedOf(tables, '$1', '$2::integer', null),
)

const ofPipeline = defineStatement('count_unfinished_of_scope', (tables) =>
  unfinishedOf(tables, '$1', '$2::integer', '$3'),
)

/** For tables over servers, where a reservation cannot count them by itself. `pipeline`: null stands for all of them. */
export async function countUnfinishedOfScope(
  store: Store,
  { scope, pipeline }: { readonly scope: string; readonly pipeline: string | null },
  limit: number,
): Promise<number> {
  const { rows } =
    pipeline === null
      ? await ofScope(store, [scope, limit], 'read')
      : await ofPipeline(store, [scope, limit, pipeline], 'read')
  return Number(rows[0]?.['n'])
}
