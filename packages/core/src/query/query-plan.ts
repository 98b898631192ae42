import type { CompiledQuery, KyselyPlugin, QueryExecutor } from 'kysely'
import { compileNamed } from './check-definition.js'
import { compileDefinition, type Definition } from './compile-definition.js'
import { expressionOf, invalidQuery, Placeholders } from './given.js'
import { isKnownPlugin } from './known-plugins.js'
import { rowsOf } from './rows-of.js'

/** The values of one use, by the names of the parameters. */
export type Values = Readonly<Record<string, unknown>>

/** A query with its values, and the plugins that it was compiled with. */
export interface Ready {
  readonly query: CompiledQuery
  readonly plugins: readonly KyselyPlugin[]
}

/** A parameter of the SQL: a value of each use by its name, or one that is part of the definition. */
type Slot = { readonly name: string } | { readonly name: null; readonly constant: unknown }

/** What a definition has become, once and for all. */
interface Fixed extends Ready {
  readonly slots: readonly Slot[]
}

/** A definition for an executor with certain plugins. */
export class QueryPlan {
  readonly #define: Definition
  readonly #names: ReadonlySet<string>
  readonly #text: string
  /** Null if there is a plugin that may make another query of it at each use. */
  readonly #fixed: Fixed | null

  constructor(define: Definition, executor: QueryExecutor) {
    const bare = compileNamed(define, executor.withoutPlugins())
    this.#define = define
    this.#names = bare.names
    this.#text = bare.query.sql
    this.#fixed = [...executor.plugins, ...bare.plugins].every(isKnownPlugin) ? fix(define, executor) : null
  }

  /** Returns the query with these values. */
  bind(executor: QueryExecutor, values: Values): Ready {
    this.#checkNames(values)
    if (this.#fixed === null)
      return compileDefinition(this.#define, executor, (name) => expressionOf(values[name]))
    const { query, plugins, slots } = this.#fixed
    const parameters = slots.map((slot) => (slot.name === null ? slot.constant : values[slot.name]))
    return { query: { ...query, parameters }, plugins }
  }

  #checkNames(values: Values): void {
    let count = 0
    for (const name of this.#names) if (values[name] !== undefined) count++
    if (count === this.#names.size && Object.keys(values).length === count) return
    const missing = [...this.#names].filter((name) => values[name] === undefined)
    if (missing.length > 0)
      throw invalidQuery(
        `A query that is compiled once was given no value for ${listed(missing)}. Pass null, or define a query without it.`,
      )
    const unknown = Object.keys(values).filter((name) => !this.#names.has(name))
    throw invalidQuery(
      `A query that is compiled once was given ${listed(unknown)}, and does not send it: ${this.#text}`,
    )
  }
}

/** Executes a query that `bind` returned. */
export async function executeReady(executor: QueryExecutor, { query, plugins }: Ready): Promise<unknown[]> {
  const isSame =
    plugins.length === executor.plugins.length && plugins.every((one, at) => one === executor.plugins[at])
  const executing = isSame ? executor : executor.withoutPlugins().withPlugins(plugins)
  return rowsOf(query.query)(await executing.executeQuery(query))
}

function fix(define: Definition, executor: QueryExecutor): Fixed {
  const placeholders = new Placeholders()
  const { query, plugins } = compileDefinition(define, executor, (name) => placeholders.of(name))
  const slots = query.parameters.map((value) => {
    const name = placeholders.nameOf(value)
    return name === null ? { name, constant: value } : { name }
  })
  // Whoever logs it sees names, not placeholders. Plugins know the query by the id that they were shown the placeholders with.
  const named = compileNamed(define, executor).query
  return { query: { ...named, queryId: query.queryId }, plugins, slots }
}

const listed = (names: readonly string[]): string => names.map((name) => `'${name}'`).join(', ')
