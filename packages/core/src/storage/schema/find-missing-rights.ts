import { defineStatement, type Store, unnested } from '../statement.js'

/** A right on one of the framework's tables. */
export interface NeededRight {
  readonly table: string
  readonly right: string
}

/** What a session's role may not do. */
export interface MissingRights {
  readonly role: string
  readonly mayUseSchema: boolean
  readonly rights: readonly NeededRight[]
}

/** Reads the catalogs, which everybody may: without USAGE on the schema, naming the table itself would be refused. */
const findMissingRightsStatement = defineStatement(
  'find_missing_rights',
  () => `
  SELECT current_user AS role, has_schema_privilege(n.oid, 'USAGE') AS may_use,
         (SELECT json_agg(json_build_object('table', needed.name, 'right', needed.privilege))
            FROM ${unnested('$2::text[]', '$3::text[]')} AS needed (name, privilege)
            JOIN pg_class AS c ON c.relname = needed.name AND c.relnamespace = n.oid
           WHERE NOT has_table_privilege(c.oid, needed.privilege)) AS rights
    FROM pg_namespace AS n WHERE n.nspname = $1`,
)

/** Returns which of these rights the role does not have, or null when there is no such schema. */
export async function findMissingRights(
  store: Store,
  needed: readonly NeededRight[],
): Promise<MissingRights | null> {
  const tables = needed.map(({ table }) => table)
  const rights = needed.map(({ right }) => right)
  const { rows } = await findMissingRightsStatement(store, [store.tables.schema, tables, rights])
  const [row] = rows
  if (row === undefined) return null
  const missing = JSON.parse(row['rights'] ?? '[]') as NeededRight[]
  return {
    role: row['role'] ?? '',
    mayUseSchema: row['may_use'] === 't',
    rights: needed.filter(({ table, right }) =>
      missing.some((each) => each.table === table && each.right === right),
    ),
  }
}
