import type { CompiledQuery, QueryExecutor } from 'kysely'
import { type Compiled, compileDefinition, type Definition } from './compile-definition.js'
import { expressionOf, invalidQuery, Placeholders } from './given.js'

/**
 * Refuses a definition that would become another query with other values. A placeholder notices when it is read, but not when an
 * `if` or a `??` looks at it. So the definition is compiled again with values that these would see.
 *
 * What plugins do is not the definition's fault: the executor is one without.
 */
export function checkDefinition(define: Definition, executor: QueryExecutor): void {
  const placeholders = new Placeholders()
  const { names, query } = compileDefinition(define, executor, (name) => placeholders.of(name))
  const named = compileNamed(define, executor)
  for (const [index, value] of query.parameters.entries())
    if (placeholders.nameOf(value) === null) checkConstant(value, named.query.parameters[index], query.sql)
  const compileWith = (name: string, value: unknown): CompiledQuery =>
    compileDefinition(define, executor, (each) => (each === name ? value : placeholders.of(each))).query
  for (const name of names) {
    const place = placeholders.of(name)
    if (!query.parameters.includes(place)) throw unused(name, query.sql)
    if (isInList(named.query.query, nameFor(name))) throw inList(name)
    if (isName(named.query.query, nameFor(name))) throw notAName(name)
    const differs = (value: unknown): Difference =>
      difference(query, place, value, () => compileWith(name, value))
    // Kysely writes none of them into the text where it would not write other values. Absent values, it leaves out.
    if (SAMPLES.some((value) => differs(value) !== 'none') || differs(undefined) === 'in a parameter')
      throw depends(name)
  }
}

/**
 * Values that a definition may ask about: whether it is null, false, or of a certain type. There is no text and no array among
 * them: in many places, Kysely takes a text for a name and an array for a list.
 */
const SAMPLES: readonly unknown[] = [0n, null, 1, true, new Date(0)]

/** Compiles a definition with the names of its parameters as their values: what can be shown, logged and compared. */
export function compileNamed(define: Definition, executor: QueryExecutor): Compiled {
  return compileDefinition(define, executor, (name) => expressionOf(nameFor(name)))
}

const nameFor = (name: string): string => `given.${name}`

/** All uses share the values that are part of the definition. */
function checkConstant(value: unknown, again: unknown, sql: string): void {
  if (typeof value === 'object' && value !== null) throw sharedObject(value)
  if (!Object.is(value, again)) throw notConstant(sql)
}

type Difference = 'none' | 'in its text' | 'in a parameter'

/** How a query differs from the one with placeholders, if one of these is a plain value. */
function difference(
  query: CompiledQuery,
  placeholder: object,
  value: unknown,
  compile: () => CompiledQuery,
): Difference {
  let other: CompiledQuery
  try {
    other = compile()
  } catch (error) {
    return isOfKysely(error) ? 'none' : 'in its text'
  }
  if (other.sql !== query.sql) return 'in its text'
  const isSent = query.parameters.every(
    (each, index) => each !== placeholder || Object.is(other.parameters[index], value),
  )
  return isSent ? 'none' : 'in a parameter'
}

/**
 * Whether Kysely refused a value where it takes an expression only. Then the definition has not looked at it before. Any other
 * error is the definition's own: it throws for some values.
 */
function isOfKysely(error: unknown): boolean {
  return error instanceof TypeError || (error instanceof Error && error.message.startsWith('invalid '))
}

/**
 * Whether a value stands where only a name makes sense: to sort or group by, or compared with nothing but another value. As a
 * text it would have been a column; as a parameter it is the same for all rows.
 */
function isName(node: unknown, value: string): boolean {
  if (typeof node !== 'object' || node === null) return false
  const { kind, leftOperand, rightOperand, orderBy, groupBy } = node as Readonly<Record<string, unknown>>
  if (kind === 'BinaryOperationNode' && isValue(leftOperand, value) && isValue(rightOperand)) return true
  if (kind === 'OrderByItemNode' && isValue(orderBy, value)) return true
  if (kind === 'GroupByItemNode' && isValue(groupBy, value)) return true
  return Object.values(node).some((child) => isName(child, value))
}

/** Whether a node is a value: this one, or any. */
function isValue(node: unknown, value?: string): boolean {
  const { kind, value: is } = (node ?? {}) as Readonly<Record<string, unknown>>
  return kind === 'ValueNode' && (value === undefined || is === value)
}

/** Whether a value is the whole list of an IN. A list has as many parameters as it has members. */
function isInList(node: unknown, value: string): boolean {
  if (typeof node !== 'object' || node === null) return false
  const { kind, operator, rightOperand } = node as Partial<
    Record<string, { readonly [key: string]: unknown }>
  >
  if ((kind as unknown) === 'BinaryOperationNode' && rightOperand?.['value'] === value)
    return /^(?:not )?in$/.test(String(operator?.['operator']))
  return Object.values(node).some((child) => isInList(child, value))
}

const depends = (name: string): Error =>
  invalidQuery(
    `The SQL of a query that is compiled once depends on its parameter '${name}': for some values, such as null, it would be another query. ` +
      'Define one query for each case and choose between them where you call them, or write this query with tx, as usual. ' +
      "To compare with a value that may be null, use 'is not distinct from'. In a CASE, use eb.val(given." +
      `${name}); instead of eb.and({ … }), use eb(…, '=', given.${name}).`,
  )

const unused = (name: string, sql: string): Error =>
  invalidQuery(
    `A query that is compiled once asked for its parameter '${name}' and does not send it: ${sql} ` +
      'A parameter can only be a value in the SQL; it cannot decide how the query is built.',
  )

const inList = (name: string): Error =>
  invalidQuery(
    `A query that is compiled once has its parameter '${name}' as the list of an IN, whose SQL depends on the list's length. ` +
      `Compare with an array instead: where('id', '=', ({ fn }) => fn.any(given.${name})).`,
  )

const notAName = (name: string): Error =>
  invalidQuery(
    `In a query that is compiled once, '${name}' is a value, and cannot be the name of a column: to sort or group by it, or to compare it ` +
      'with another value, does the same for all rows. Define one query for each column. If you do mean the value, ' +
      `say of which type: eb.cast(given.${name}, 'text').`,
  )

const sharedObject = (value: object): Error =>
  invalidQuery(
    `A query that is compiled once contains a ${value.constructor?.name ?? 'value'} that all its uses would share. ` +
      'Make it a parameter: given.name.',
  )

const notConstant = (sql: string): Error =>
  invalidQuery(
    `A query that is compiled once contains a value that is another one each time it is built: ${sql} ` +
      'Make it a parameter: given.name.',
  )
