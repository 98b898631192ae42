import type { Kysely, QueryCreator, QueryExecutor } from 'kysely'
import { type BoundQuery, PlannedQuery } from './bound-query.js'
import { checkDefinition } from './check-definition.js'
import type { Compiles, Definition } from './compile-definition.js'
import type { Given } from './given.js'
import { PlanCache } from './plan-cache.js'
import { QueryPlan, type Values } from './query-plan.js'

/** A query that is compiled once: give it `tx` or `engine.db` and the values, and execute it. */
export type DefinedQuery<DB, Parameters, Row> = (
  /** What executes the query: `tx` in a phase, `engine.db` elsewhere. */
  db: Kysely<DB>,
  ...values: keyof Parameters extends never ? [] : [values: Readonly<Parameters>]
) => BoundQuery<Row>

/** The type of `query`. */
export interface DefineQuery<DB> {
  /**
   * Defines a query that Kysely builds and compiles once, at its first use, and not at every request. The function describes
   * the query: it gets a place for each value, in `given`, and no values. It must not decide anything by them.
   *
   * @example
   * const insertRide = query((db, given: Given<{ rider: string; amount: number }>) =>
   *   db.insertInto('rides').values({ rider: given.rider, amount: given.amount }).returning('id'),
   * )
   * // In a phase:
   * const ride = await insertRide(tx, { rider: scope, amount: input.amount }).executeTakeFirstOrThrow()
   */
  <Row, Parameters extends object = object>(
    define: (db: QueryCreator<DB>, given: Given<Parameters>) => Compiles<Row>,
  ): DefinedQuery<DB, Parameters, Row>
}

export function defineQuery(define: Definition): DefinedQuery<never, Values, unknown> {
  const plans = new PlanCache()
  let isChecked = false
  const planFor = (executor: QueryExecutor): QueryPlan => {
    if (!isChecked) checkDefinition(define, executor.withoutPlugins())
    isChecked = true
    return new QueryPlan(define, executor)
  }
  return (db: Kysely<never>, values: Values = NO_VALUES) => {
    const executor = db.getExecutor()
    const plan = plans.planFor(executor, planFor)
    return new PlannedQuery(plan, executor, values)
  }
}

const NO_VALUES: Values = Object.freeze({})
