import type { CompiledQuery, DatabaseConnection, QueryResult, Transaction } from 'kysely'
import { MAX_SHOWN_VALUE } from '../limits.js'

/** The query that the kit itself adds to a phase's transaction, after the phase's function has returned. */
const KIT_LOCK_SQL = 'SELECT pg_advisory_xact_lock($1)'

interface Context {
  readonly tx?: Transaction<never>
  readonly stage?: (name: string, ...more: unknown[]) => Promise<unknown>
}

/** The queries that one run of a phase's function has begun through `tx` and `stage`. */
export interface WatchedQueries {
  /** What to call the function with. */
  readonly context: never
  /** To be called once, when the function has returned. What is still under way then was not awaited. */
  readonly returned: () => void
}

/**
 * Finds queries that nobody awaits. It only observes their promises: whoever awaits one gets the result in the same turn as without
 * the kit. A query that is answered before the function returns is not reported, whether it was awaited or not.
 */
export function watchQueries(context: never, notAwaited: (what: string) => void): WatchedQueries {
  const { tx, stage } = context as Context
  const underWay = new Map<Promise<unknown>, string>()
  let isOver = false
  const watch = <P extends Promise<unknown>>(what: string, begun: P): P => {
    const end = (): void => void underWay.delete(begun)
    if (isOver) notAwaited(what)
    else underWay.set(begun, what)
    begun.then(end, end)
    return begun
  }
  if (tx !== undefined) watchConnection(tx, watch)
  return {
    context: (stage === undefined
      ? context
      : {
          ...(context as Context),
          stage: (name: string, ...more: unknown[]) => watch(`the job ${name}`, stage(name, ...more)),
        }) as never,
    returned: () => {
      isOver = true
      for (const what of underWay.values()) notAwaited(what)
    },
  }
}

/** All queries of a transaction use one connection, and each transaction has its own connection object. */
function watchConnection(
  tx: Transaction<never>,
  watch: <P extends Promise<unknown>>(what: string, begun: P) => P,
): void {
  void tx.getExecutor().provideConnection(async (connection: DatabaseConnection) => {
    const execute = connection.executeQuery.bind(connection)
    connection.executeQuery = <R>(query: CompiledQuery): Promise<QueryResult<R>> =>
      query.sql === KIT_LOCK_SQL
        ? execute<R>(query)
        : watch(`the query ${shortened(query.sql)}`, execute<R>(query))
  })
}

function shortened(sql: string): string {
  return sql.length > MAX_SHOWN_VALUE ? `${sql.slice(0, MAX_SHOWN_VALUE)}…` : sql
}
