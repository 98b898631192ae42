import type { Layout } from './layout.js'
import { defineStatement, type RunStatement, type Store } from '../statement.js'

const readLayoutStatement = defineStatement(
  'read_layout',
  ({ keys }) => `
  SELECT c.relkind = 'p' AS partitioned, (SELECT count(*) FROM pg_inherits AS i WHERE i.inhparent = c.oid) AS partitions,
         to_regclass('pg_catalog.pg_dist_shard') IS NOT NULL AS has_citus
    FROM pg_class AS c WHERE c.oid = to_regclass('${keys}')`,
)

/** Only where the extension is installed: elsewhere, PostgreSQL does not know the catalog. */
const readShardsStatement = defineStatement(
  'read_shards',
  ({ keys }) =>
    `
  SELECT count(*) AS shards FROM pg_dist_shard AS s JOIN pg_dist_partition AS p ON p.logicalrelid = s.logicalrelid
   WHERE s.logicalrelid = to_regclass('${keys}') AND p.partmethod = 'h'`,
)

type Row = Readonly<Record<string, string | null>>

/** Reads how the tables are stored; null if there are none. `migrate` runs the statements in a transaction of its own. */
export async function readLayout(
  store: Store,
  run: (statement: RunStatement) => Promise<{ readonly rows: readonly Row[] }> = (statement) =>
    statement(store, [], 'read'),
): Promise<Layout | null> {
  const [table] = (await run(readLayoutStatement)).rows
  if (table === undefined) return null
  if (table['partitioned'] === 't') return { kind: 'partitioned', partitions: Number(table['partitions']) }
  if (table['has_citus'] !== 't') return { kind: 'plain' }
  const [distributed] = (await run(readShardsStatement)).rows
  const shards = Number(distributed?.['shards'])
  return shards === 0 ? { kind: 'plain' } : { kind: 'citus', shards }
}
