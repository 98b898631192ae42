import { type Expression, ValueNode } from 'kysely'
import { PawlError } from '../errors.js'

declare const reason: unique symbol

/** Nothing can be done with it, so the compiler prints its argument: a sentence that says what to do. */
interface NotGiven<Reason extends string> {
  readonly [reason]: Reason
}

/**
 * The place of a value in a query that is compiled once. Kysely takes it wherever it takes a value. It has no value while the
 * query is compiled: it cannot be read, compared or computed with.
 */
export interface GivenValue<T> extends Expression<T> {}

/**
 * The parameters of a query, with the types of their values.
 *
 * @example
 * const findRide = query((db, given: Given<{ id: string }>) =>
 *   db.selectFrom('rides').select(['id', 'amount']).where('id', '=', given.id),
 * )
 */
export type Given<Values> = {
  readonly [Name in keyof Values]-?: 0 extends 1 & Values[Name]
    ? GivenValue<Values[Name]>
    : undefined extends Values[Name]
      ? NotGiven<'a parameter always has a value: use null, or define a second query without it'>
      : GivenValue<Values[Name]>
}

/** What a definition gets, with the names that it has asked for. */
export interface Giving {
  readonly given: object
  readonly names: ReadonlySet<string>
}

/** Returns an object that has every member: whatever `valueOf` returns for its name. */
export function giving(valueOf: (name: string) => unknown): Giving {
  const names = new Set<string>()
  const given = new Proxy(Object.freeze({}), {
    get(_, name) {
      if (typeof name === 'symbol' || name in Object.prototype)
        throw invalidQuery(`A parameter of a query cannot be called ${String(name)}. Choose another name.`)
      names.add(name)
      return valueOf(name)
    },
    has: refuseToList,
    ownKeys: refuseToList,
    getOwnPropertyDescriptor: refuseToList,
  })
  return { given, names }
}

function refuseToList(): never {
  throw invalidQuery(
    'The parameters of a query cannot be listed, spread or searched: their names are known to the compiler only. ' +
      'Name each: { origin: given.origin, target: given.target }.',
  )
}

/** A value as Kysely's builders see a parameter. */
export function expressionOf(value: unknown): Expression<unknown> {
  return { expressionType: undefined, toOperationNode: () => ValueNode.create(value) }
}

/**
 * Stands for a parameter while a definition is compiled, as an expression and as its value. Only Kysely may look at it: whatever
 * else is asked of it would be asked of a value, and becomes an error.
 */
function placeholderOf(name: string): object {
  const refuse = (how: string): never => {
    throw invalidQuery(
      `A query that is compiled once read its parameter '${name}'${how}. It has no value yet: pass it to Kysely as it is, ` +
        'and compute before you call the query. A query whose SQL depends on values is written with tx, as usual.',
    )
  }
  const node = (): ValueNode => ValueNode.create(placeholder)
  const placeholder: object = new Proxy(Object.freeze({}), {
    has: (_, key) => key === 'expressionType' || key === 'toOperationNode',
    get(_, key) {
      if (key === 'toOperationNode') return node
      if (key === 'expressionType' || ASKED_BY_KYSELY.has(key)) return undefined
      return refuse(` (${String(key)})`)
    },
    ownKeys: () => refuse(', by listing its members'),
    getOwnPropertyDescriptor: () => refuse(', by listing its members'),
  })
  return placeholder
}

/** The placeholders of one definition: always the same one for a name. */
export class Placeholders {
  readonly #byName = new Map<string, object>()
  readonly #names = new Map<unknown, string>()

  /** Returns the placeholder of a parameter. */
  of(name: string): object {
    let placeholder = this.#byName.get(name)
    if (placeholder === undefined) {
      this.#byName.set(name, (placeholder = placeholderOf(name)))
      this.#names.set(placeholder, name)
    }
    return placeholder
  }

  /** Returns the name of the parameter that a value stands for; null if it is a value of its own. */
  nameOf(value: unknown): string | null {
    return this.#names.get(value) ?? null
  }
}

/** By these members, Kysely recognises other objects of its own. */
const ASKED_BY_KYSELY: ReadonlySet<string | symbol> = new Set(['dynamicReference', 'table', 'alias'])

export function invalidQuery(message: string): PawlError {
  return new PawlError('PAWL_INVALID_QUERY', message)
}
