import { announce } from '../announce/announce.js'
import { sqlStateOf } from '../driver/postgres-error.js'
import { groupByShard } from '../storage/schema/group-by-shard.js'
import type { Store } from '../storage/statement.js'

/**
 * Does something about rows of many scopes: at once on one server, and shard by shard where the tables are distributed. There, one
 * server that is away does not keep the others' rows from their turn; its own have theirs in a later round.
 */
export async function forEachShard<Row extends { readonly scope: string }, Result>(
  store: Store,
  rows: readonly Row[],
  act: (rows: readonly Row[]) => Promise<readonly Result[]>,
): Promise<Result[]> {
  const groups = await groupByShard(store, rows)
  const results: Result[] = []
  const errors: unknown[] = []
  for (const group of groups) {
    try {
      results.push(...(await act(group)))
    } catch (error) {
      if (sqlStateOf(error) === null) throw error
      errors.push(error)
    }
  }
  if (errors.length > 0 && errors.length === groups.length) throw errors[0]
  for (const error of errors) announce('pawl:warning', () => ({ message: PASSED_OVER, error }))
  return results
}

const PASSED_OVER = 'a server of the cluster did not do its part of a round; a later round does it'
