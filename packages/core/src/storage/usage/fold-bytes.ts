import { defineStatement, eachGiven, type Store } from '../statement.js'

const IS_PART = `u.scope = each.scope AND u.kind = 'stored_bytes' AND u.pipeline = each.pipeline`

/**
 * Puts the parts that nobody has locked into one, or deletes them where they add up to nothing. What is locked keeps its bytes, so the
 * sum of all stays what it is.
 */
const foldBytesStatement = defineStatement(
  'fold_bytes',
  (tables) => `
  WITH parts AS (
    SELECT u.scope, u.pipeline, u.part, u.bytes
      FROM ${tables.scopeUsage} AS u, ${eachGiven(tables, { scope: '$1::text[]', pipeline: '$2::text[]' })}
     WHERE ${IS_PART}
       FOR UPDATE OF u SKIP LOCKED
  ), sums AS (
    SELECT scope, pipeline, min(part) AS part, sum(bytes)::bigint AS bytes FROM parts GROUP BY scope, pipeline
  ), kept AS (
    UPDATE ${tables.scopeUsage} AS u SET bytes = each.bytes FROM sums AS each
     WHERE ${IS_PART} AND u.part = each.part AND each.bytes <> 0
    RETURNING u.scope
  )
  DELETE FROM ${tables.scopeUsage} AS u USING parts AS each JOIN sums ON sums.scope = each.scope AND sums.pipeline = each.pipeline
   WHERE ${IS_PART} AND u.part = each.part AND (sums.bytes = 0 OR each.part <> sums.part)
  RETURNING u.scope`,
)

/** Returns how many parts are gone. */
export async function foldBytes(
  store: Store,
  counts: readonly { readonly scope: string; readonly pipeline: string }[],
): Promise<number> {
  const columns = [counts.map(({ scope }) => scope), counts.map(({ pipeline }) => pipeline)]
  return (await foldBytesStatement(store, columns)).rows.length
}
