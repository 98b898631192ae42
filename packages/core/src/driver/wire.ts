import type { PoolClient, QueryResult } from 'pg'
import { batchClass, type BatchingClient, type OnAnswered, type QueryClass, type Sendable } from './batch.js'
import { queryOf } from './outgoing.js'
import { sqlStateOf } from './postgres-error.js'
import { singleQueryClass } from './single-query.js'

/** How messages are sent on a client, one at a time. */
export interface Wire {
  /** Several statements in one message; null where the client cannot. Those after a failed one are not executed. */
  readonly sendTogether:
    | ((client: PoolClient, statements: readonly Sendable[], onAnswered: OnAnswered) => void)
    | null
  sendAlone(client: PoolClient, statement: Sendable, onAnswered: OnAnswered): void
}

const known = new WeakMap<object, Wire>()

/** How to send on clients of this class. */
export function wireOf(clientClass: object): Wire {
  let wire = known.get(clientClass)
  if (wire === undefined)
    known.set(clientClass, (wire = isOfPg(clientClass) ? wireWith(clientClass.Query) : PLAIN))
  return wire
}

const NEEDED = [
  'submit',
  'prepare',
  'handleRowDescription',
  'handleDataRow',
  'handleCommandComplete',
  'handleEmptyQuery',
  'handleReadyForQuery',
  'handleError',
]

/** `pg-native` and look-alikes have none of this. */
function isOfPg(clientClass: object): clientClass is { readonly Query: QueryClass } {
  const { Query } = clientClass as { readonly Query?: { readonly prototype?: Record<string, unknown> } }
  const { prototype } = Query ?? {}
  return prototype !== undefined && NEEDED.every((method) => typeof prototype[method] === 'function')
}

function wireWith(Query: QueryClass): Wire {
  const Batch = batchClass(Query)
  const SingleQuery = singleQueryClass(Query)
  return {
    sendTogether: (client, statements, onAnswered) => {
      client.query(new Batch(client as unknown as BatchingClient, statements, onAnswered) as never)
    },
    sendAlone: (client, statement, onAnswered) => {
      client.query(new SingleQuery(statement, onAnswered) as never)
    },
  }
}

/** A client that takes a query and returns a promise, and of which nothing else is known. */
const PLAIN: Wire = {
  sendTogether: null,
  sendAlone: (client, statement, onAnswered) => {
    client.query(queryOf(statement)).then(
      (result: QueryResult) => onAnswered(null, [result]),
      (error: unknown) => afterAnswer(client, error, onAnswered),
    )
  },
}

/** An error may be reported before the server is ready for more. The answer to an empty query comes after that. */
function afterAnswer(client: PoolClient, error: unknown, onAnswered: OnAnswered): void {
  const report = (): void => onAnswered(error, [])
  if (sqlStateOf(error) === null) report()
  else client.query('').then(report, report)
}
