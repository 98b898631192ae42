import { defineStatement, type Store } from '../statement.js'

/** A shard of a table, and the server that has it. */
export interface Placement {
  readonly host: string
  readonly port: number
  /** Its name on that server, ready for SQL. */
  readonly shard: string
}

const findPlacementsStatement = defineStatement(
  'find_placements',
  () => `
  SELECT n.nodename AS host, n.nodeport AS port, shard_name(s.logicalrelid, s.shardid) AS shard
    FROM pg_dist_shard AS s JOIN pg_dist_placement AS p ON p.shardid = s.shardid
    JOIN pg_dist_node AS n ON n.groupid = p.groupid AND n.noderole = 'primary'
   WHERE s.logicalrelid = to_regclass($1) ORDER BY s.shardid`,
)

/** Which server has which shard of a table. Citus knows that by itself: no other server is asked. */
export async function findPlacements(store: Store, table: string): Promise<Placement[]> {
  const { rows } = await findPlacementsStatement(store, [table], 'read')
  return rows.map((row) => ({
    host: row['host'] ?? '',
    port: Number(row['port']),
    shard: row['shard'] ?? '',
  }))
}
