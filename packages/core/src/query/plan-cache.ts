import type { KyselyPlugin, QueryExecutor } from 'kysely'
import type { QueryPlan } from './query-plan.js'

/** The plan after a certain list of plugins, and the lists that begin with it. */
interface Branch {
  plan: QueryPlan | null
  readonly next: WeakMap<KyselyPlugin, Branch>
}

/**
 * The plans of one definition. Every phase has an executor of its own; those that compile alike have the same adapter, which each
 * Kysely has one of, and the same plugins. A plan goes when its Kysely goes, or one of its plugins: `withSchema` makes a new one
 * at each call.
 */
export class PlanCache {
  readonly #byAdapter = new WeakMap<object, Branch>()

  /** Returns the plan for this executor, and makes it if there is none. */
  planFor(executor: QueryExecutor, make: (executor: QueryExecutor) => QueryPlan): QueryPlan {
    let branch = branchOf(this.#byAdapter, executor.adapter)
    for (const plugin of executor.plugins) branch = branchOf(branch.next, plugin)
    return (branch.plan ??= make(executor))
  }
}

function branchOf<Key extends object>(branches: WeakMap<Key, Branch>, key: Key): Branch {
  let branch = branches.get(key)
  if (branch === undefined) branches.set(key, (branch = { plan: null, next: new WeakMap() }))
  return branch
}
