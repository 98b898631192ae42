import { PawlError } from '@pawl/core'
import { ConsoleError, type ConsoleErrorCode } from './console-error.js'

/** What core says about an argument that it does not take: it checked before it asked the database. */
const INVALID = new Set([
  'PAWL_INVALID_OPTION',
  'PAWL_INVALID_REQUEST',
  'PAWL_INVALID_RESPONSE',
  'PAWL_NOT_JSON',
  'PAWL_TOO_LARGE',
])
const AWAY = new Set(['PAWL_NO_CONNECTION', 'PAWL_CONNECTION_LOST', 'PAWL_STORE_AWAY'])
/** Faults of the server, or of the way to it: connection, authorization, resources, shutdown, no such database. */
const AWAY_SQLSTATE = /^(?:08|28|53|57P|3D000)/
const UNDEFINED_SCHEMA_TABLE_OR_COLUMN = new Set(['3F000', '42P01', '42703'])
/** query_canceled, lock_not_available */
const TOO_SLOW_SQLSTATE = new Set(['57014', '55P03'])
/** insufficient_privilege, read_only_sql_transaction */
const MISSING_RIGHT_SQLSTATE = new Set(['42501', '25006'])
const SYSTEM_ERROR = /^E[A-Z_]+$/

const AWAY_TEXT = 'The database cannot be reached. What is shown may be out of date.'

/**
 * What to tell the browser about an error. What core says of a wrong argument is for whoever gave it; messages of the database may name
 * hosts, roles and values, so they go to the log only.
 */
export function readFailure(error: unknown, schema: string): ConsoleError {
  if (error instanceof ConsoleError) return error
  const code = codeOf(error)
  const tell = (as: ConsoleErrorCode, message: string) => new ConsoleError(as, message, { cause: error })
  if (INVALID.has(code)) return tell('invalid', (error as PawlError).message)
  if (code === 'PAWL_NOT_MIGRATED' || UNDEFINED_SCHEMA_TABLE_OR_COLUMN.has(code)) {
    return tell(
      'not_migrated',
      `Schema '${schema}' does not have the tables that this version of Pawl works with. Run: pawl migrate${schema === 'pawl' ? '' : ` --schema ${schema}`}`,
    )
  }
  if (code === 'PAWL_MISSING_RIGHT') return tell('missing_right', (error as PawlError).message)
  if (MISSING_RIGHT_SQLSTATE.has(code))
    return tell('missing_right', "The database's role may not do that. The console's log says what it lacks.")
  if (TOO_SLOW_SQLSTATE.has(code)) return tell('too_slow', 'The database did not answer in time. Try again.')
  if (AWAY.has(code)) return tell('database_away', AWAY_TEXT)
  if (!(error instanceof PawlError) && (AWAY_SQLSTATE.test(code) || SYSTEM_ERROR.test(code)))
    return tell('database_away', AWAY_TEXT)
  return tell('internal', "Something went wrong. The console's log says what.")
}

/** The code of an error of core, of PostgreSQL or of the system, wherever in its causes the first one is. */
function codeOf(error: unknown): string {
  const { code, cause } = (error ?? {}) as { readonly code?: unknown; readonly cause?: unknown }
  if (typeof code === 'string') return code
  return cause instanceof Error ? codeOf(cause) : ''
}
