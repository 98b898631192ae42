import {
  type CompiledQuery,
  type ConnectionProvider,
  DefaultQueryExecutor,
  type KyselyPlugin,
  QueryCreator,
  type QueryCompiler,
  type QueryExecutor,
  type QueryExecutorProvider,
} from 'kysely'
import { disarmPromise } from '../disarm-promise.js'
import { giving, invalidQuery } from './given.js'

/** What Kysely's builders of whole queries have in common, and `sql` as well. */
export interface Compiles<Row> {
  compile(executorProvider: QueryExecutorProvider): CompiledQuery<Row>
}

/** What the user passes to `query`, without its types. */
export type Definition = (db: QueryCreator<never>, given: never) => Compiles<unknown>

/** What a definition has become. */
export interface Compiled {
  readonly query: CompiledQuery
  /** Those of the executor, unless the definition added or removed some. */
  readonly plugins: readonly KyselyPlugin[]
  /** The parameters that the definition has asked for. */
  readonly names: ReadonlySet<string>
}

/** Runs a definition, and compiles what it returns as a query of this executor would be. */
export function compileDefinition(
  define: Definition,
  executor: QueryExecutor,
  valueOf: (name: string) => unknown,
): Compiled {
  const { given, names } = giving(valueOf)
  const compiling = new CompilingExecutor(executor, executor.plugins)
  const defined = define(new QueryCreator<never>({ executor: compiling }), given as never)
  if (typeof (defined as Partial<Compiles<unknown>> | undefined)?.compile !== 'function') {
    disarmPromise(defined)
    throw invalidQuery(
      'The function passed to query() has to return a query of Kysely, and not to execute it: leave out execute() and await.',
    )
  }
  const query = defined.compile({ getExecutor: () => compiling })
  return { query, plugins: compiling.lastUsed.plugins, names }
}

/** Compiles like another executor, executes nothing, and remembers with which plugins a query was compiled. */
class CompilingExecutor extends DefaultQueryExecutor {
  readonly #original: QueryExecutor
  /** Shared with all executors that were derived from the first. */
  readonly lastUsed: { plugins: readonly KyselyPlugin[] }

  constructor(original: QueryExecutor, plugins: readonly KyselyPlugin[], lastUsed = { plugins }) {
    const compiler: QueryCompiler = { compileQuery: (node, queryId) => original.compileQuery(node, queryId) }
    super(compiler, original.adapter, NO_CONNECTION, [...plugins])
    this.#original = original
    this.lastUsed = lastUsed
  }

  override compileQuery(...query: Parameters<DefaultQueryExecutor['compileQuery']>): CompiledQuery {
    this.lastUsed.plugins = this.plugins
    return super.compileQuery(...query)
  }

  override withPlugins(plugins: readonly KyselyPlugin[]): CompilingExecutor {
    return this.#with([...this.plugins, ...plugins])
  }

  override withPlugin(plugin: KyselyPlugin): CompilingExecutor {
    return this.#with([...this.plugins, plugin])
  }

  override withPluginAtFront(plugin: KyselyPlugin): CompilingExecutor {
    return this.#with([plugin, ...this.plugins])
  }

  override withoutPlugins(): CompilingExecutor {
    return this.#with([])
  }

  override withConnectionProvider(): CompilingExecutor {
    return this
  }

  #with(plugins: readonly KyselyPlugin[]): CompilingExecutor {
    return new CompilingExecutor(this.#original, plugins, this.lastUsed)
  }
}

const NO_CONNECTION: ConnectionProvider = {
  provideConnection: () =>
    Promise.reject(invalidQuery('A query was executed inside the function passed to query().')),
}
