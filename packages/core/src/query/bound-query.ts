import {
  type CompiledQuery,
  type DeleteResult,
  type InsertResult,
  isNoResultErrorConstructor,
  type MergeResult,
  NoResultError,
  type NoResultErrorConstructor,
  type QueryExecutor,
  type QueryNode,
  type UpdateResult,
} from 'kysely'
import { executeReady, type QueryPlan, type Ready, type Values } from './query-plan.js'

/** The first row, which there may not be. An insert, update or delete without `returning` always has a result. */
type First<Row> = Row extends InsertResult | UpdateResult | DeleteResult | MergeResult ? Row : Row | undefined

/** A compiled query with its values, ready to be executed: with the methods that Kysely's own builders have for it. */
export interface BoundQuery<Row> {
  /** Executes the query and returns all rows. */
  execute(): Promise<Row[]>
  /** Executes the query and returns the first row, or undefined if there is none. */
  executeTakeFirst(): Promise<First<Row>>
  /** Executes the query and returns the first row. Throws a `NoResultError` of Kysely, or yours, if there is none. */
  executeTakeFirstOrThrow(error?: NoResultErrorConstructor | ((node: QueryNode) => Error)): Promise<Row>
  /** Returns the SQL and the values that would be sent. */
  compile(): CompiledQuery<Row>
}

export class PlannedQuery<Row> implements BoundQuery<Row> {
  readonly #executor: QueryExecutor
  readonly #ready: Ready

  constructor(plan: QueryPlan, executor: QueryExecutor, values: Values) {
    this.#executor = executor
    this.#ready = plan.bind(executor, values)
  }

  execute(): Promise<Row[]> {
    return executeReady(this.#executor, this.#ready) as Promise<Row[]>
  }

  async executeTakeFirst(): Promise<First<Row>> {
    const [first] = await this.execute()
    return first as First<Row>
  }

  async executeTakeFirstOrThrow(
    error: NoResultErrorConstructor | ((node: QueryNode) => Error) = NoResultError,
  ): Promise<Row> {
    const [first] = await this.execute()
    if (first !== undefined) return first
    const node = this.#ready.query.query as QueryNode
    throw isNoResultErrorConstructor(error) ? new error(node) : error(node)
  }

  compile(): CompiledQuery<Row> {
    return this.#ready.query
  }
}
