import { bothUnfinished } from './unfinished.js'
import { defineStatement, type Store } from '../statement.js'

const countUnfinishedStatement = defineStatement(
  'count_unfinished',
  (tables) => `
  SELECT count(*) AS count
    FROM ${bothUnfinished(tables, 'k.created_at < to_timestamp($1::double precision / 1000)')}`,
)

/** How many keys from before a moment are unfinished; for each status, counting stops at the limit. */
export async function countUnfinished(store: Store, beforeMs: number): Promise<number> {
  const { rows } = await countUnfinishedStatement(store, [beforeMs])
  return Number(rows[0]?.['count'])
}
