import type { Placement } from './find-placements.js'
import { defineStatement, type Store } from '../statement.js'

const askServerStatement = defineStatement(
  'ask_server',
  () => `
  SELECT r.success, r.result
    FROM master_run_on_worker($1::text[], $2::integer[], $3::text[], true) AS r (host, port, success, result)`,
)

/** What a server said instead of an answer about one of its shards. */
export class ShardFailed extends Error {}

/** Has a server execute a command that returns a list of rows as JSON, for each of these shards of its own. Returns all rows. */
export async function askServer(
  store: Store,
  shards: readonly Placement[],
  command: (shard: string) => string,
): Promise<Readonly<Record<string, unknown>>[]> {
  const { rows } = await askServerStatement(
    store,
    [
      shards.map(({ host }) => host),
      shards.map(({ port }) => port),
      shards.map(({ shard }) => command(shard)),
    ],
    'read',
  )
  return rows.flatMap(({ success, result }) => {
    if (success !== 't') throw new ShardFailed(result ?? '')
    return JSON.parse(result ?? '[]') as Record<string, unknown>[]
  })
}
