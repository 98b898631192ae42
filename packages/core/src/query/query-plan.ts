import type { CompiledQuery, KyselyPlugin, QueryExecutor } from 'kysely'
import { MAX_CHECKED_KINDS } from '../limits.js'
import { compileNamed } from './check-definition.js'
import { type Compiled, compileDefinition, type Definition } from './compile-definition.js'
import { expressionOf, invalidQuery, Placeholders } from './given.js'
import { type RowsOf, rowsOf } from './rows-of.js'

/** The values of one use, by the names of the parameters. */
export type Values = Readonly<Record<string, unknown>>

/** A parameter of the SQL: a value of each use by its name, or one that is part of the definition. */
type Slot = { readonly name: string } | { readonly name: null; readonly constant: unknown }

/** A definition, compiled for an executor with certain plugins. */
export class QueryPlan {
  readonly #define: Definition
  readonly #compiled: CompiledQuery
  readonly #names: ReadonlySet<string>
  readonly #slots: readonly Slot[]
  readonly #rowsOf: RowsOf
  /** Set if the definition added or removed plugins. */
  readonly #ownPlugins: readonly KyselyPlugin[] | null
  /** The kinds of values for which plugins were seen to change nothing; null if there are no plugins. */
  readonly #checkedKinds: Set<string> | null

  constructor(define: Definition, executor: QueryExecutor) {
    const placeholders = new Placeholders()
    const compiled = compileDefinition(define, executor, (name) => placeholders.of(name))
    const { query, names, plugins } = compiled
    for (const name of names)
      if (!query.parameters.includes(placeholders.of(name))) throw changedByPlugin(query.sql)
    this.#define = define
    // Whoever logs it sees names, not placeholders. Plugins know the query by the id that they were shown the placeholders with.
    this.#compiled = { ...compileNamed(define, executor).query, queryId: query.queryId }
    this.#names = names
    this.#slots = query.parameters.map((value) => {
      const name = placeholders.nameOf(value)
      return name === null ? { name, constant: value } : { name }
    })
    this.#rowsOf = rowsOf(query.query)
    this.#ownPlugins = hasPluginsOf(compiled, executor) ? null : plugins
    this.#checkedKinds = plugins.length === 0 ? null : new Set()
  }

  /** Returns the query with these values. */
  bind(executor: QueryExecutor, values: Values): CompiledQuery {
    const parameters = this.#slots.map((slot) => (slot.name === null ? slot.constant : values[slot.name]))
    if (parameters.includes(undefined) || Object.keys(values).length !== this.#names.size)
      this.#refuseNames(values)
    const { query, queryId, sql } = this.#compiled
    const bound = { query, queryId, sql, parameters }
    if (this.#checkedKinds !== null) this.#checkPlugins(executor, values, bound, this.#checkedKinds)
    return bound
  }

  /** Executes a query that `bind` returned. */
  async execute(executor: QueryExecutor, bound: CompiledQuery): Promise<unknown[]> {
    const own = this.#ownPlugins
    const executing = own === null ? executor : executor.withoutPlugins().withPlugins(own)
    return this.#rowsOf(await executing.executeQuery(bound))
  }

  /**
   * A plugin may look at the values of a query, and write other SQL for null, or encrypt texts. So values of kinds that are new
   * here are compared with what the plugins make of the same query with these values.
   */
  #checkPlugins(executor: QueryExecutor, values: Values, bound: CompiledQuery, checked: Set<string>): void {
    let kinds = ''
    for (const name of this.#names) kinds += `${kindOf(values[name])},`
    if (checked.has(kinds)) return
    const { query } = compileDefinition(this.#define, executor, (name) => expressionOf(values[name]))
    const isSame =
      query.sql === bound.sql &&
      query.parameters.every((value, index) => Object.is(value, bound.parameters[index]))
    if (!isSame) throw changedByPlugin(query.sql)
    if (checked.size < MAX_CHECKED_KINDS) checked.add(kinds)
  }

  #refuseNames(values: Values): void {
    const names = [...this.#names]
    const missing = names.filter((name) => values[name] === undefined)
    if (missing.length > 0)
      throw invalidQuery(
        `A query that is compiled once was given no value for ${listed(missing)}. Pass null, or define a query without it.`,
      )
    const unknown = Object.keys(values).filter((name) => !this.#names.has(name))
    if (unknown.length > 0)
      throw invalidQuery(
        `A query that is compiled once was given ${listed(unknown)}, and does not send it: ${this.#compiled.sql}`,
      )
  }
}

const changedByPlugin = (sql: string): Error =>
  invalidQuery(
    `A plugin changes a query that is compiled once, depending on its values: ${sql} ` +
      'Write this query with tx, as usual, or without that plugin.',
  )

const listed = (names: readonly string[]): string => names.map((name) => `'${name}'`).join(', ')

function hasPluginsOf({ plugins }: Compiled, executor: QueryExecutor): boolean {
  return (
    plugins.length === executor.plugins.length &&
    plugins.every((plugin, index) => plugin === executor.plugins[index])
  )
}

/** What a plugin could tell apart without looking at the value itself. A member called `constructor` is part of the value. */
function kindOf(value: unknown): string {
  if (typeof value !== 'object') return typeof value
  if (value === null) return 'null'
  const prototype = Object.getPrototypeOf(value) as {
    readonly constructor?: { readonly name?: unknown }
  } | null
  return String(prototype?.constructor?.name)
}
