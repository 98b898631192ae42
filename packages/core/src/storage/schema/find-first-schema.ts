import { defineStatement, type Store } from '../statement.js'

const findFirstSchemaStatement = defineStatement(
  'find_first_schema',
  () => `
  SELECT n.nspname AS name
    FROM ROWS FROM (unnest($1::text[])) WITH ORDINALITY AS listed (name, nth)
    JOIN pg_namespace AS n ON n.nspname = listed.name
   WHERE n.nspname <> 'pg_catalog' AND has_schema_privilege(n.oid, 'USAGE') ORDER BY listed.nth LIMIT 1`,
)

/** The first of these schemas that exists and may be used: a table that is created without a schema goes there. */
export async function findFirstSchema(store: Store, names: readonly string[]): Promise<string | null> {
  const { rows } = await findFirstSchemaStatement(store, [names])
  return rows[0]?.['name'] ?? null
}
