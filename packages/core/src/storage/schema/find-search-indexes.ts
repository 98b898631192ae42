import { defineStatement, type Store } from '../statement.js'

/** Columns that somebody may have indexed by hand, so that a search finds everything at once. */
export interface SearchIndexes {
  readonly keys: boolean
  readonly references: boolean
  readonly providerKeys: boolean
}

const findSearchIndexesStatement = defineStatement(
  'find_search_indexes',
  () => `
  SELECT t.relname, a.attname
    FROM pg_index AS i
    JOIN pg_class AS t ON t.oid = i.indrelid
    JOIN pg_namespace AS n ON n.oid = t.relnamespace
    JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = i.indkey[0]
   WHERE n.nspname = $1 AND i.indisvalid AND i.indpred IS NULL
     AND (t.relname = 'idempotency_keys' AND a.attname = 'key'
          OR t.relname = 'effects' AND a.attname = ANY (ARRAY['reference', 'provider_key']::name[]))`,
)

/** Reads which of them begin an index of their own. */
export async function findSearchIndexes(store: Store): Promise<SearchIndexes> {
  const { rows } = await findSearchIndexesStatement(store, [store.tables.schema])
  const columns = rows.map((row) => `${row['relname']}.${row['attname']}`)
  return {
    keys: columns.includes('idempotency_keys.key'),
    references: columns.includes('effects.reference'),
    providerKeys: columns.includes('effects.provider_key'),
  }
}
