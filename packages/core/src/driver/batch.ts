import type { QueryResult } from 'pg'

/** A statement as `pg` takes it. */
export interface Sendable {
  readonly text: string
  readonly values?: unknown[]
  readonly name?: string
  readonly types?: never
}

/** The parts of `pg`'s own query and connection that a batch is made of; its types leave them out. */
interface ProtocolQuery {
  name?: string | undefined
  text?: string | undefined
  binary?: boolean | undefined
  callback?: (error: unknown, result?: unknown) => void
  prepare(connection: Connection): void
  handleRowDescription(message: unknown): void
  handleDataRow(message: unknown): void
  handleCommandComplete(message: unknown, connection: Connection): void
  handleEmptyQuery(connection: Connection): void
  handleReadyForQuery(connection: Connection): void
  handleError(error: unknown, connection: Connection): void
}

interface Connection {
  readonly stream: { cork?(): void; uncork?(): void }
  readonly submittedNamedStatements: Record<string, string>
  sync(): void
}

type QueryClass = new (config: object) => ProtocolQuery

/** A client that a batch can be sent on. */
export interface BatchingClient {
  readonly binary?: boolean
  query(batch: unknown): unknown
  getTypeParser(oid: number, format?: never): unknown
}

/** Sends statements together; those after a failed one are not executed. `onAnswered`: once for each that was. */
export type SendBatch = (
  client: BatchingClient,
  statements: readonly Sendable[],
  onAnswered: () => void,
) => Promise<QueryResult[]>

const known = new WeakMap<object, SendBatch | null>()

/**
 * How to send several statements in one round trip on clients of this class; null where it is not `pg`'s own.
 *
 * They share one Sync: after a failure the server skips all that follow. Queries that merely do not wait for each
 * other, as with `pg`'s `pipeline` option, have one each: there, a statement whose BEGIN failed would be executed
 * outside of any transaction.
 */
export function batchesOn(clientClass: object): SendBatch | null {
  let send = known.get(clientClass)
  if (send === undefined) {
    send = isSuitable(clientClass) ? sendWith(batchClass(clientClass.Query)) : null
    known.set(clientClass, send)
  }
  return send
}

const NEEDED = [
  'prepare',
  'handleRowDescription',
  'handleDataRow',
  'handleCommandComplete',
  'handleEmptyQuery',
  'handleReadyForQuery',
  'handleError',
]

/** `pg-native` and look-alikes have none of this. */
function isSuitable(clientClass: object): clientClass is { readonly Query: QueryClass } {
  const { Query } = clientClass as { readonly Query?: { readonly prototype?: Record<string, unknown> } }
  const { prototype } = Query ?? {}
  return prototype !== undefined && NEEDED.every((method) => typeof prototype[method] === 'function')
}

interface BatchClass {
  readonly Member: QueryClass
  new (members: readonly ProtocolQuery[]): ProtocolQuery
}

function sendWith(Batch: BatchClass): SendBatch {
  return (client, statements, onAnswered) =>
    new Promise((resolve, reject) => {
      const types = { getTypeParser: client.getTypeParser.bind(client) }
      const results: QueryResult[] = []
      const members = statements.map((statement) => {
        const member = new Batch.Member({ types, ...statement })
        member.callback = (_, result) => {
          results.push(result as QueryResult)
          onAnswered()
        }
        if (client.binary === true) member.binary = true
        return member
      })
      const batch = new Batch(members)
      batch.callback = (error) => {
        if (error == null) resolve(results)
        else reject(error)
      }
      client.query(batch)
    })
}

/** A query of `pg` that is answered member by member. */
function batchClass(Query: QueryClass): BatchClass {
  return class Batch extends Query {
    static readonly Member = Query
    readonly #members: readonly ProtocolQuery[]
    #answered = 0
    #failed: { readonly error: unknown } | null = null

    constructor(members: readonly ProtocolQuery[]) {
      super({ text: '' })
      this.#members = members
      this.#awaitNext(0)
    }

    submit(connection: Connection): null {
      // Each member would end with a Sync of its own.
      const withoutSync = Object.create(connection, { sync: { value: () => {} } }) as Connection
      connection.stream.cork?.()
      try {
        for (const member of this.#members) {
          // A value that cannot be sent, or a row that cannot be read.
          member.handleError = (error) => {
            this.#failed ??= { error }
          }
          member.prepare(withoutSync)
          // What follows must not be executed without it.
          if (this.#failed !== null) break
        }
      } finally {
        connection.sync()
        connection.stream.uncork?.()
      }
      return null
    }

    override handleRowDescription(message: unknown): void {
      this.#member?.handleRowDescription(message)
    }

    override handleDataRow(message: unknown): void {
      this.#member?.handleDataRow(message)
    }

    override handleCommandComplete(message: unknown, connection: Connection): void {
      this.#member?.handleCommandComplete(message, connection)
      this.#memberAnswered(connection)
    }

    override handleEmptyQuery(connection: Connection): void {
      this.#memberAnswered(connection)
    }

    override handleError(error: unknown, connection: Connection): void {
      // The server skipped the rest, so that none of them is prepared there.
      for (const { name } of this.#members.slice(this.#answered))
        if (name !== undefined) delete connection.submittedNamedStatements[name]
      this.callback?.(error)
    }

    override handleReadyForQuery(): void {
      this.callback?.(this.#failed?.error)
    }

    get #member(): ProtocolQuery | undefined {
      return this.#members[this.#answered]
    }

    #memberAnswered(connection: Connection): void {
      this.#member?.handleReadyForQuery(connection)
      this.#awaitNext(this.#answered + 1)
    }

    /** The client remembers by its query's name and text what has been prepared. */
    #awaitNext(at: number): void {
      this.#answered = at
      this.name = this.#member?.name
      this.text = this.#member?.text
    }
  }
}
