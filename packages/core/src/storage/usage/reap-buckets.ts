import { isFull } from './find-idle-usage.js'
import { defineStatement, eachGiven, type Store } from '../statement.js'

const reapBucketsStatement = defineStatement(
  'reap_buckets',
  (tables) => `
  WITH full_ones AS (
    SELECT u.scope, u.kind, u.pipeline
      FROM ${tables.scopeUsage} AS u, ${eachGiven(tables, { scope: '$1::text[]', kind: '$2::text[]', pipeline: '$3::text[]' })}
     WHERE u.scope = each.scope AND u.kind = each.kind AND u.pipeline = each.pipeline AND u.part = 0${tables.ofOneShard('u')}
       AND u.kind <> 'stored_bytes' AND ${isFull('u.per_ms')}
       FOR UPDATE OF u SKIP LOCKED
  )
  DELETE FROM ${tables.scopeUsage} AS u USING full_ones AS each
   WHERE u.scope = each.scope AND u.kind = each.kind AND u.pipeline = each.pipeline AND u.part = 0${tables.ofOneShard('u')}
  RETURNING u.scope`,
)

/** Deletes those of these buckets that are still full and not locked. Whoever needs one begins with a full one. */
export async function reapBuckets(
  store: Store,
  buckets: readonly { readonly scope: string; readonly kind: string; readonly pipeline: string }[],
): Promise<number> {
  const columns = [
    buckets.map(({ scope }) => scope),
    buckets.map(({ kind }) => kind),
    buckets.map(({ pipeline }) => pipeline),
  ]
  return (await reapBucketsStatement(store, columns)).rows.length
}
