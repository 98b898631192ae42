import { defineStatement, type Store } from '../statement.js'

/** Whether the schema has ever been migrated. */
const hasHistoryStatement = defineStatement(
  'has_history',
  ({ schema }) => `SELECT to_regclass('"${schema}"."migrations"') IS NOT NULL AS found`,
)

const readVersionStatement = defineStatement(
  'read_version',
  ({ schema }) => `SELECT coalesce(max(version), 0) AS version FROM "${schema}"."migrations"`,
)

/** How many migrations the schema has had; null where it has never been migrated. */
export async function readVersion(store: Store): Promise<number | null> {
  const { rows } = await hasHistoryStatement(store, [])
  if (rows[0]?.['found'] !== 't') return null
  const { rows: versions } = await readVersionStatement(store, [])
  return Number(versions[0]?.['version'])
}
