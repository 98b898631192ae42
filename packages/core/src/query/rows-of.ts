import {
  type CompiledQuery,
  DeleteResult,
  InsertResult,
  MergeResult,
  type QueryResult,
  UpdateResult,
} from 'kysely'

/** What a result becomes for whoever executed the query. */
export type RowsOf = (result: QueryResult<unknown>) => unknown[]

/** Returns what `execute` of Kysely's own builders does with the result of such a query. */
export function rowsOf(query: CompiledQuery['query']): RowsOf {
  if ('returning' in query && query.returning !== undefined) return ({ rows }) => rows
  switch (query.kind) {
    case 'InsertQueryNode':
      return ({ insertId, numAffectedRows = 0n }) => [new InsertResult(insertId, numAffectedRows)]
    case 'UpdateQueryNode':
      return ({ numAffectedRows = 0n, numChangedRows }) => [new UpdateResult(numAffectedRows, numChangedRows)]
    case 'DeleteQueryNode':
      return ({ numAffectedRows = 0n }) => [new DeleteResult(numAffectedRows)]
    case 'MergeQueryNode':
      return ({ numAffectedRows }) => [new MergeResult(numAffectedRows)]
    default:
      return ({ rows }) => rows
  }
}
