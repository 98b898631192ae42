import { defineStatement, epochMs, type Store } from '../statement.js'

/** How large a table is, with its indexes and partitions. */
export interface TableSizeRow {
  readonly table: string
  readonly liveRows: number
  readonly deadRows: number
  readonly bytes: number
  readonly vacuumedMs: number | null
}

/** Sizes of files, and what the server's statistics say: no row is read. */
const readTableSizesStatement = defineStatement(
  'read_table_sizes',
  () => `
  SELECT c.relname, sum(s.n_live_tup) AS live, sum(s.n_dead_tup) AS dead, sum(pg_total_relation_size(s.relid::regclass)) AS bytes,
         ${epochMs('max(greatest(s.last_autovacuum, s.last_vacuum))')} AS vacuumed_ms
    FROM pg_namespace AS n
    JOIN pg_class AS c ON c.relnamespace = n.oid AND (c.relkind = 'r' OR c.relkind = 'p') AND NOT c.relispartition
    LEFT JOIN LATERAL pg_partition_tree(c.oid::regclass) AS tree ON tree.isleaf
    JOIN pg_stat_all_tables AS s ON s.relid = coalesce(tree.relid::oid, c.oid)
   WHERE n.nspname = $1
   GROUP BY c.relname ORDER BY c.relname`,
)

/** Every table of the framework's schema on the server that is connected to. */
export async function readTableSizes(store: Store): Promise<TableSizeRow[]> {
  const { rows } = await readTableSizesStatement(store, [store.tables.schema])
  return rows.map((row) => ({
    table: row['relname'] ?? '',
    liveRows: Number(row['live'] ?? 0),
    deadRows: Number(row['dead'] ?? 0),
    bytes: Number(row['bytes'] ?? 0),
    vacuumedMs: row['vacuumed_ms'] == null ? null : Number(row['vacuumed_ms']),
  }))
}
