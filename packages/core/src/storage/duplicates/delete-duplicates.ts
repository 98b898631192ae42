import { defineStatement, eachGiven, type Store } from '../statement.js'
import type { DuplicateRow } from './find-old-duplicates.js'

const GIVEN = { scope: '$1::text[]', minute_ms: '$2::bigint[]', pipeline: '$3::text[]' }

const IS_THAT_ROW =
  'd.scope = each.scope AND d.minute = to_timestamp(each.minute_ms::double precision / 1000::double precision) AND d.pipeline = each.pipeline'

const deleteDuplicatesStatement = defineStatement(
  'delete_duplicates',
  (tables) => `
  WITH free AS (
    SELECT d.scope, each.minute_ms, d.pipeline
      FROM ${tables.duplicates} AS d, ${eachGiven(tables, GIVEN)}
     WHERE ${IS_THAT_ROW}${tables.ofOneShard('d')}
       FOR UPDATE OF d SKIP LOCKED
  )
  DELETE FROM ${tables.duplicates} AS d USING free AS each WHERE ${IS_THAT_ROW}${tables.ofOneShard('d')}
  RETURNING d.scope`,
)

/** Deletes those of these counts that nobody has locked; returns the scope of each. Over servers, all of them are in one shard. */
export async function deleteDuplicates(store: Store, old: readonly DuplicateRow[]): Promise<string[]> {
  const { rows } = await deleteDuplicatesStatement(store, [
    old.map(({ scope }) => scope),
    old.map(({ minuteMs }) => minuteMs),
    old.map(({ pipeline }) => pipeline),
  ])
  return rows.map((row) => row['scope'] ?? '')
}
