import { defineStatement, type Store } from '../statement.js'

/** A foreign key of another table that refers to the keys. */
export interface Reference {
  readonly table: string
  readonly column: string
  readonly constraint: string
  /** Whether an index finds the rows that refer to a key. */
  readonly indexed: boolean
  /** Whether such a row keeps the key from being deleted. */
  readonly holds: boolean
}

const readReferencesStatement = defineStatement(
  'read_references',
  ({ keys }) => `
  SELECT c.conrelid::regclass AS table, a.attname AS column, c.conname AS constraint,
         c.confdeltype = 'a' OR c.confdeltype = 'r' AS holds,
         EXISTS (SELECT 1 FROM pg_index AS i
                  WHERE i.indrelid = c.conrelid AND i.indkey[0] = c.conkey[1] AND i.indisvalid
                    AND (i.indpred IS NULL OR pg_get_expr(i.indpred, i.indrelid) ~~ '%IS NOT NULL)')) AS indexed
    FROM pg_constraint AS c JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
   WHERE c.contype = 'f' AND c.confrelid = '${keys}'::regclass AND c.conparentid = 0
   ORDER BY 1, 2`,
)

/** Reads the foreign keys of other tables that refer to the keys. */
export async function readReferences(store: Store): Promise<Reference[]> {
  const { rows } = await readReferencesStatement(store, [])
  return rows.map((row) => ({
    table: row['table'] ?? '',
    column: row['column'] ?? '',
    constraint: row['constraint'] ?? '',
    indexed: row['indexed'] === 't',
    holds: row['holds'] === 't',
  }))
}
