import { defineStatement, epochMs, type Store } from '../statement.js'

/** How well the keys' table is maintained; where it is partitioned, all partitions together. */
export interface TableCare {
  readonly liveRows: number
  readonly deadRows: number
  /** How many partitions hold its rows; null when it is not partitioned. */
  readonly partitions: number | null
  /**
   * When it, or one of its partitions, was last vacuumed, automatically or by hand; null if never since the statistics
   * were reset.
   */
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

/** Reads how many rows of the keys' table are live and dead, and when it was last vacuumed. */
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
