import type { PoolClient, QueryResult } from 'pg'
import { batchClass } from './batch.js'
import { queryOf } from './outgoing.js'
import type { OnAnswered, QueryClass, Sendable } from './pg-protocol.js'
import { sqlStateOf } from './postgres-error.js'
import { singleQueryClass } from './single-query.js'

/** How messages are sent on a client, one at a time. */
export interface Wire {
  /** Sends several statements in one message; null if the client cannot. Those after a failed one are not executed. */
  readonly sendTogether:
    | ((client: PoolClient, statements: readonly Sendable[], onAnswered: OnAnswered) => void)
    | null
  sendAlone(client: PoolClient, statement: Sendable, onAnswered: OnAnswered): void
}

const known = new WeakMap<object, Wire>()

/** Returns how to send on clients of this class. */
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
    sendTogether: (client, statements, onAnswered) =>
      submit(client, new Batch(client, statements, onAnswered), onAnswered),
    sendAlone: (client, statement, onAnswered) =>
      submit(client, new SingleQuery(statement, onAnswered), onAnswered),
  }
}

/**
 * A tracer may have made `query` return a promise, which rejects on errors as well: otherwise nobody would handle those
 * rejections.
 */
function submit(client: PoolClient, query: object, onAnswered: OnAnswered): void {
  const returned: unknown = client.query(query as never)
  if (typeof (returned as Partial<Promise<unknown>> | undefined)?.then === 'function')
    (returned as Promise<unknown>).then(undefined, (error: unknown) =>
      afterAnswer(client, '', error, onAnswered),
    )
}

/** For a client that takes a query and returns a promise, and of which nothing else is known. */
const PLAIN: Wire = {
  sendTogether: null,
  sendAlone: (client, statement, onAnswered) => {
    client.query(queryOf(statement)).then(
      (result: QueryResult) => onAnswered(null, [result]),
      (error: unknown) => afterAnswer(client, statement.text, error, onAnswered),
    )
  },
}

/**
 * An error may be reported before the server is ready for more; the answer to an empty query comes after that. What a text
 * of several statements had executed before its error is not known. If it may have ended the transaction, we assume that it
 * did.
 */
function afterAnswer(client: PoolClient, text: string, error: unknown, onAnswered: OnAnswered): void {
  const mayHaveEnded =
    /;[^]*\b(?:commit|end|begin|start|rollback|abort|prepare)\b/i.test(`;${text}`) && text.includes(';')
  const report = (): void => onAnswered(error, [], mayHaveEnded ? [{ command: 'COMMIT' }] : [])
  if (sqlStateOf(error) === null) report()
  else client.query('').then(report, report)
}
