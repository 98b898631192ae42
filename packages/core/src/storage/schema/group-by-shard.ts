import { defineStatement, type Store } from '../statement.js'

/** What Citus knows by itself: no other server is asked. */
const findShardsStatement = defineStatement(
  'find_shards',
  ({ keys }) => `
  SELECT s.scope, get_shard_id_for_distribution_column('${keys}'::regclass, s.scope) AS shard
    FROM ROWS FROM (unnest($1::text[])) AS s (scope)`,
)

/**
 * Groups rows such that each group can be named in one statement: those of one shard where the tables are distributed, all of them on
 * one server. A statement about several shards would be committed in two phases, and fail if any of their servers is away.
 */
export async function groupByShard<Row extends { readonly scope: string }>(
  store: Store,
  rows: readonly Row[],
): Promise<(readonly Row[])[]> {
  if (rows.length === 0) return []
  if (rows.length === 1 || !store.tables.spread.overServers) return [rows]
  const scopes = [...new Set(rows.map(({ scope }) => scope))]
  const { rows: found } = await findShardsStatement(store, [scopes], 'read')
  const shards = new Map(found.map((row) => [row['scope'], row['shard']]))
  const groups = new Map<string | null | undefined, Row[]>()
  for (const row of rows) {
    const shard = shards.get(row.scope)
    const group = groups.get(shard)
    if (group === undefined) groups.set(shard, [row])
    else group.push(row)
  }
  return [...groups.values()]
}
