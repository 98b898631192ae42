import { sqlStateOf } from '../../driver/postgres-error.js'
import { PawlError } from '../../errors.js'
import { DEFAULT_SCHEMA, type Tables } from '../tables.js'

/** undefined_table, invalid_schema_name, undefined_column */
const NOT_THERE = new Set(['42P01', '3F000', '42703'])

/** Whether a statement of the framework failed because its tables are missing or have another version. */
export function isNotMigrated(error: unknown): boolean {
  const sqlState = sqlStateOf(error)
  return sqlState !== null && NOT_THERE.has(sqlState)
}

export function notMigrated(tables: Tables, cause: unknown): PawlError {
  return new PawlError(
    'PAWL_NOT_MIGRATED',
    `The tables of Pawl are not in schema '${tables.schema}', or are of another version. Run ${migrateCall(tables)} first.`,
    { cause },
  )
}

/** The call to run, as one would write it. */
export function migrateCall({ schema }: Tables): string {
  return schema === DEFAULT_SCHEMA ? 'migrate(pool)' : `migrate(pool, { schema: '${schema}' })`
}
