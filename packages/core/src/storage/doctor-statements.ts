import { defineStatement, epochMs, type Store } from './statement.js'

/** All indexes of the framework's tables. Without one of them, some statement reads a whole table. */
export const EXPECTED_INDEXES = [
  'idempotency_keys_pkey',
  'idempotency_keys_scope_key_key',
  'idempotency_keys_running',
  'idempotency_keys_stuck',
  'idempotency_keys_finished',
  'effects_pkey',
  'effects_by_key',
  'effects_by_time',
  'staged_jobs_pkey',
  'staged_jobs_waiting',
  'staged_jobs_by_key',
  'staged_jobs_dead',
  'staged_jobs_dead_by_key',
  'interventions_pkey',
  'interventions_by_key',
  'interventions_by_time',
] as const

/** What the server says of itself, as this pool's sessions see it. Settings are as `pg_settings` spells them. */
export interface ServerFacts {
  readonly nowMs: number
  readonly inRecovery: boolean
  /** Connections of clients to the whole server, and to this database. */
  readonly connections: number
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

const hasHistoryStatement = defineStatement(
  'has_history',
  ({ schema }) => `SELECT to_regclass('"${schema}"."migrations"') IS NOT NULL AS found`,
)

const readVersionStatement = defineStatement(
  'read_version',
  ({ schema }) => `SELECT coalesce(max(version), 0) AS version FROM "${schema}"."migrations"`,
)

/** How many migrations the schema has; null where it has never been migrated. */
export async function readVersion(store: Store): Promise<number | null> {
  const { rows } = await hasHistoryStatement(store, [])
  if (rows[0]?.['found'] !== 't') return null
  const { rows: versions } = await readVersionStatement(store, [])
  return Number(versions[0]?.['version'])
}

const readIndexesStatement = defineStatement(
  'read_indexes',
  ({ schema }) => `
  SELECT c.relname AS name, i.indisvalid AND i.indisready AS valid
    FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
   WHERE c.relnamespace = to_regnamespace('"${schema}"')`,
)

/** The indexes that are there, and whether each can be used. */
export async function readIndexes(store: Store): Promise<ReadonlyMap<string, boolean>> {
  const { rows } = await readIndexesStatement(store, [])
  return new Map(rows.map((row) => [row['name'] ?? '', row['valid'] === 't']))
}

/** A foreign key of another table to the keys. */
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
         EXISTS (SELECT FROM pg_index AS i
                  WHERE i.indrelid = c.conrelid AND i.indkey[0] = c.conkey[1] AND i.indisvalid
                    AND (i.indpred IS NULL OR pg_get_expr(i.indpred, i.indrelid) ~~ '%IS NOT NULL)')) AS indexed
    FROM pg_constraint AS c JOIN pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
   WHERE c.contype = 'f' AND c.confrelid = '${keys}'::regclass AND c.conparentid = 0
   ORDER BY 1, 2`,
)

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

/** How the keys' table is kept; where it is partitioned, all partitions together. */
export interface TableCare {
  readonly liveRows: number
  readonly deadRows: number
  /** How many partitions hold its rows; null: it is not partitioned. */
  readonly partitions: number | null
  /** When it, or one of its partitions, was last vacuumed, by itself or by hand; null: never since the statistics were reset. */
  readonly vacuumedMs: number | null
}

const readTableCareStatement = defineStatement(
  'read_table_care',
  ({ keys }) => `
  SELECT sum(s.n_live_tup) AS live, sum(s.n_dead_tup) AS dead, count(tree.relid) AS partitions,
         ${epochMs('max(greatest(s.last_autovacuum, s.last_vacuum))')} AS vacuumed_ms
    FROM pg_stat_all_tables AS s
    LEFT JOIN pg_partition_tree('${keys}'::regclass) AS tree ON tree.relid = s.relid AND tree.isleaf
   WHERE s.relid = '${keys}'::regclass OR tree.relid IS NOT NULL`,
)

export async function readTableCare(store: Store): Promise<TableCare> {
  const { rows } = await readTableCareStatement(store, [])
  const row = rows[0] ?? {}
  return {
    liveRows: Number(row['live'] ?? 0),
    deadRows: Number(row['dead'] ?? 0),
    partitions: Number(row['partitions']) === 0 ? null : Number(row['partitions']),
    vacuumedMs: row['vacuumed_ms'] == null ? null : Number(row['vacuumed_ms']),
  }
}
