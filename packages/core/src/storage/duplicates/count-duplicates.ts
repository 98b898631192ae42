import { runUnnamed } from '../run-unnamed.js'
import { defineStatement, epochSeconds, NOW, type Store, unnested } from '../statement.js'

/** How many duplicates of a pipeline's requests a scope has sent. */
export interface DuplicateCount {
  /** Empty for scopes that are not counted by themselves. */
  readonly scope: string
  readonly pipeline: string
  readonly replayed: number
  readonly inFlight: number
  readonly mismatched: number
}

/** The beginning of the minute, by the database's clock: that of a process may be an hour off. */
const MINUTE = `to_timestamp((floor(${epochSeconds(NOW)} / 60::numeric) * 60::numeric)::double precision)`

const countDuplicatesStatement = defineStatement(
  'count_duplicates',
  ({ duplicates }) => `
  INSERT INTO ${duplicates} AS u (scope, minute, pipeline, replayed, in_flight, mismatched)
  SELECT given.scope, ${MINUTE}, given.pipeline, given.replayed, given.in_flight, given.mismatched
    FROM ${unnested('$1::text[]', '$2::text[]', '$3::bigint[]', '$4::bigint[]', '$5::bigint[]')}
           AS given (scope, pipeline, replayed, in_flight, mismatched)
      ON CONFLICT (scope, minute, pipeline)
      DO UPDATE SET replayed = u.replayed + excluded.replayed, in_flight = u.in_flight + excluded.in_flight,
                    mismatched = u.mismatched + excluded.mismatched`,
)

/** Adds to the counts of the minute. In one order, so that processes which do so at once do not wait for each other in turn. */
export async function countDuplicates(store: Store, counts: readonly DuplicateCount[]): Promise<void> {
  const inOrder = counts.toSorted((a, b) => compare(a.scope, b.scope) || compare(a.pipeline, b.pipeline))
  await runUnnamed(
    store,
    countDuplicatesStatement.bind(store.tables, [
      inOrder.map(({ scope }) => scope),
      inOrder.map(({ pipeline }) => pipeline),
      inOrder.map(({ replayed }) => replayed),
      inOrder.map(({ inFlight }) => inFlight),
      inOrder.map(({ mismatched }) => mismatched),
    ]),
    'write_soon',
  )
}

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}
