import { defineStatement, type Store } from '../statement.js'

/** Facts about a session: its server, its role, and where that role looks for names without a schema. */
export interface SessionFacts {
  /** Such as `18.1`. */
  readonly serverVersion: string
  /** Such as 180001. */
  readonly serverVersionNumber: number
  readonly role: string
  readonly database: string
  /** The path as it is set now, and the one that sessions of this role begin with: the caller may have changed it. */
  readonly searchPaths: readonly string[]
}

const readSessionStatement = defineStatement(
  'read_session',
  () => `
  SELECT current_setting('server_version') AS version, current_setting('server_version_num') AS version_number,
         current_user AS role, current_database() AS database, p.setting, p.reset_val
    FROM pg_settings AS p WHERE p.name = 'search_path'`,
)

/** Reads which server, role and database a session has, and its search path. */
export async function readSession(store: Store): Promise<SessionFacts> {
  const { rows } = await readSessionStatement(store, [])
  const row = rows[0] ?? {}
  return {
    serverVersion: row['version'] ?? '',
    serverVersionNumber: Number(row['version_number']),
    role: row['role'] ?? '',
    database: row['database'] ?? '',
    searchPaths: [...new Set([row['setting'] ?? '', row['reset_val'] ?? ''])],
  }
}
