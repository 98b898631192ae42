import { defineStatement, epochMs, type Store } from '../statement.js'

/** What the server says about itself, as this pool's sessions see it. Settings are spelled as in `pg_settings`. */
export interface ServerFacts {
  readonly nowMs: number
  readonly inRecovery: boolean
  /** Client connections to the whole server. */
  readonly connections: number
  /** Client connections to this database. */
  readonly connectionsHere: number
  readonly settings: Readonly<Record<string, string>>
}

const readServerStatement = defineStatement(
  'read_server',
  () => `
  SELECT ${epochMs('clock_timestamp()')} AS now_ms, pg_is_in_recovery() AS in_recovery,
         (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
         (SELECT count(*) FROM pg_stat_activity
           WHERE backend_type = 'client backend' AND datname = current_database()) AS connections_here,
         (SELECT json_object_agg(name, setting) FROM pg_settings
           WHERE name = ANY (ARRAY['fsync', 'synchronous_commit', 'full_page_writes', 'default_transaction_isolation',
                          'default_transaction_read_only', 'max_connections', 'superuser_reserved_connections',
                          'reserved_connections', 'statement_timeout', 'transaction_timeout'])) AS settings`,
)

/** Reads the server's clock, connections and settings. */
export async function readServer(store: Store): Promise<ServerFacts> {
  const { rows } = await readServerStatement(store, [])
  const row = rows[0] ?? {}
  return {
    nowMs: Number(row['now_ms']),
    inRecovery: row['in_recovery'] === 't',
    connections: Number(row['connections']),
    connectionsHere: Number(row['connections_here']),
    settings: JSON.parse(row['settings'] ?? '{}') as Record<string, string>,
  }
}
