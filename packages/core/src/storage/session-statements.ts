import { defineStatement, type Store } from './statement.js'

/** What a session is: its server, its role, and where that looks for names without a schema. */
export interface SessionFacts {
  /** Such as `18.1`. */
  readonly serverVersion: string
  /** Such as 180001. */
  readonly serverVersionNumber: number
  readonly role: string
  readonly database: string
  /** As it is set now, and as sessions of this role begin: who asks may have set another. */
  readonly searchPaths: readonly string[]
}

const readSessionStatement = defineStatement(
  'read_session',
  () => `
  SELECT current_setting('server_version') AS version, current_setting('server_version_num') AS version_number,
         current_user AS role, current_database() AS database, p.setting, p.reset_val
    FROM pg_settings AS p WHERE p.name = 'search_path'`,
)

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

const findFirstSchemaStatement = defineStatement(
  'find_first_schema',
  () => `
  SELECT n.nspname AS name
    FROM ROWS FROM (unnest($1::text[])) WITH ORDINALITY AS listed (name, nth)
    JOIN pg_namespace AS n ON n.nspname = listed.name
   WHERE n.nspname <> 'pg_catalog' AND has_schema_privilege(n.oid, 'USAGE') ORDER BY listed.nth LIMIT 1`,
)

/** The first of these schemas that is there and may be used: a table that is created without a schema goes there. */
export async function findFirstSchema(store: Store, names: readonly string[]): Promise<string | null> {
  const { rows } = await findFirstSchemaStatement(store, [names])
  return rows[0]?.['name'] ?? null
}

/** A session that has a lock on one of the framework's tables. */
export interface LockHolder {
  readonly pid: number
  readonly role: string
  readonly application: string
  readonly state: string
  /** For how long its transaction has been open. */
  readonly forMs: number
  /** What it runs, or ran last: as much as PostgreSQL lets the asker see. */
  readonly query: string
}

const findLockHoldersStatement = defineStatement(
  'find_lock_holders',
  ({ schema }) => `
  SELECT a.pid, a.usename, a.application_name, a.state, left(a.query, 200) AS query,
         floor(extract(epoch FROM clock_timestamp() - a.xact_start) * 1000) AS for_ms
    FROM pg_stat_activity AS a
   WHERE a.pid <> pg_backend_pid()
     AND EXISTS (SELECT FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
                   JOIN pg_namespace AS n ON n.oid = c.relnamespace
                  WHERE l.pid = a.pid AND l.granted AND l.database = a.datid AND n.nspname = '${schema}')
   ORDER BY a.xact_start LIMIT 3`,
)

/** Who has locks on the framework's tables, those first who have been at it for longest. */
export async function findLockHolders(store: Store): Promise<LockHolder[]> {
  const { rows } = await findLockHoldersStatement(store, [])
  return rows.map((row) => ({
    pid: Number(row['pid']),
    role: row['usename'] ?? '',
    application: row['application_name'] ?? '',
    state: row['state'] ?? 'not shown',
    forMs: Number(row['for_ms']),
    query: (row['query'] ?? '').replaceAll(/\s+/g, ' ').trim(),
  }))
}
