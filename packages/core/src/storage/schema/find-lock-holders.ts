import { defineStatement, type Store } from '../statement.js'

/** A session that has a lock on one of the framework's tables. */
export interface LockHolder {
  readonly pid: number
  readonly role: string
  readonly application: string
  readonly state: string
  /** How long its transaction has been open. */
  readonly forMs: number
  /** What it is running, or ran last: as much as PostgreSQL lets us see. */
  readonly query: string
}

const findLockHoldersStatement = defineStatement(
  'find_lock_holders',
  ({ schema }) => `
  SELECT a.pid, a.usename, a.application_name, a.state, left(a.query, 200) AS query,
         floor(extract(epoch FROM clock_timestamp() - a.xact_start) * 1000) AS for_ms
    FROM pg_stat_activity AS a
   WHERE a.pid <> pg_backend_pid()
     AND EXISTS (SELECT 1 FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
                   JOIN pg_namespace AS n ON n.oid = c.relnamespace
                  WHERE l.pid = a.pid AND l.granted AND l.database = a.datid AND n.nspname = '${schema}')
   ORDER BY a.xact_start LIMIT 3`,
)

/** The sessions that have locks on the framework's tables, the longest-running transaction first. */
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
