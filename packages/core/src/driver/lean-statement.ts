import type { QueryResult } from 'pg'
import type { BatchStatement } from './batch-statement.js'
import type { Collector } from './collector.js'
import type { BatchingClient, Connection, Sendable } from './pg-protocol.js'

interface Field {
  readonly name: string
  readonly dataTypeID: number
}

/** What the rows of a statement look like. */
interface Shape {
  readonly fields: readonly Field[]
  /** A row of nulls, to be filled in. A column may have any name, even one that every object already has. */
  readonly empty: Readonly<Record<string, null>>
}

/** The shapes of the framework's own statements, by text: a text has the same columns each time. */
const ownShapes = new Map<string, Shape>()

/**
 * The shapes of the application's statements, by the names that a connection has them prepared as: they cannot change until
 * they are prepared again.
 */
const preparedShapes = new WeakMap<Connection['parsedStatements'], Map<string, Shape>>()

type Parse = (value: string) => unknown

/**
 * A statement in a batch with plain values, whose columns need not be asked for each time. A query of `pg` can do more, and
 * costs several times as much. Returns null if the statement needs such a query.
 */
export function leanStatement(client: BatchingClient, statement: Sendable): BatchStatement | null {
  if (client.binary === true && statement.asText !== true) return null
  return statement.values?.every(isPlain) === false ? null : new LeanStatement(client, statement)
}

function isPlain(value: unknown): boolean {
  switch (typeof value) {
    case 'string':
    case 'number':
    case 'boolean':
      return true
    default:
      return value === null || Buffer.isBuffer(value)
  }
}

function toPlain(value: unknown): string | Buffer | null {
  return typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : (value as string | Buffer | null)
}

class LeanStatement implements BatchStatement {
  readonly #client: BatchingClient
  readonly #statement: Sendable
  #rows: Record<string, unknown>[] | null = null
  #shape: Shape | undefined
  #parsers: readonly Parse[] | null = null
  #remember: ((shape: Shape) => void) | null = null
  #tag = ''
  failed: { readonly error: unknown } | null = null

  constructor(client: BatchingClient, statement: Sendable) {
    this.#client = client
    this.#statement = statement
  }

  get name(): string | undefined {
    return this.#statement.name
  }

  get text(): string {
    return this.#statement.text
  }

  prepare(connection: Collector): void {
    const { text, name, repeated } = this.#statement
    const { parsedStatements, submittedNamedStatements } = connection
    const isPrepared =
      name !== undefined && (parsedStatements[name] ?? submittedNamedStatements[name]) !== undefined
    if (!isPrepared) {
      connection.parse({ text, name })
      if (name !== undefined) submittedNamedStatements[name] = text
    }
    this.#recall(parsedStatements)
    if (repeated === undefined || this.#shape === undefined) this.#execute(connection)
    else connection.repeat(repeated, () => this.#execute(connection))
  }

  /** Looks up the columns, if they are known. */
  #recall(parsedStatements: Connection['parsedStatements']): void {
    const { text, name, asText } = this.#statement
    if (asText !== true && name === undefined) return
    const [shapes, key] = asText === true ? [ownShapes, text] : [shapesOn(parsedStatements), name as string]
    this.#shape = shapes.get(key)
    if (this.#shape === undefined) this.#remember = (shape) => void shapes.set(key, shape)
  }

  #execute(connection: Connection): void {
    const { name, values = [] } = this.#statement
    connection.bind({ values, statement: name, valueMapper: toPlain })
    if (this.#shape === undefined) connection.describe({ type: 'P', name: '' })
    connection.execute({ portal: '' })
  }

  handleRowDescription({ fields }: { readonly fields: readonly Field[] }): void {
    this.#shape = shapeOf(fields)
  }

  handleDataRow({ fields: values }: { readonly fields: readonly (string | null)[] }): void {
    const { fields, empty } = this.#shape ?? NO_COLUMNS
    if (this.#statement.asText !== true) this.#parsers ??= this.#parsersFor(fields)
    const row: Record<string, unknown> = { ...empty }
    try {
      for (let index = 0; index < fields.length; index++) {
        const value = values[index] ?? null
        const { name } = fields[index] as Field
        row[name] = value === null || this.#parsers === null ? value : this.#parsers[index]?.(value)
      }
      if (this.#rows === null) this.#rows = [row]
      else this.#rows.push(row)
    } catch (error) {
      this.failed ??= { error }
    }
  }

  /** Looked up each time: an application may set others at any time. */
  #parsersFor(fields: readonly Field[]): Parse[] {
    const client = this.#client
    return fields.map(({ dataTypeID }) => client.getTypeParser(dataTypeID, 'text' as never) as Parse)
  }

  handleCommandComplete({ text: tag }: { readonly text: string }): void {
    this.#tag = tag
    this.#remember?.(this.#shape ?? NO_COLUMNS)
  }

  result(): QueryResult {
    const { command, rowCount } = readTag(this.#tag)
    return { command, rowCount, rows: this.#rows ?? [] } as unknown as QueryResult
  }
}

const NO_COLUMNS: Shape = { fields: [], empty: {} }

function shapeOf(fields: readonly Field[]): Shape {
  return { fields, empty: Object.fromEntries(fields.map(({ name }) => [name, null])) }
}

function shapesOn(parsedStatements: Connection['parsedStatements']): Map<string, Shape> {
  let shapes = preparedShapes.get(parsedStatements)
  if (shapes === undefined) preparedShapes.set(parsedStatements, (shapes = new Map()))
  return shapes
}

/** Such as `INSERT 0 1`, `SELECT 3`, `BEGIN` and `CREATE TABLE`. */
function readTag(tag: string): { readonly command: string; readonly rowCount: number | null } {
  const first = tag.indexOf(' ')
  if (first === -1) return { command: tag, rowCount: null }
  const count = Number(tag.slice(tag.lastIndexOf(' ') + 1))
  return { command: tag.slice(0, first), rowCount: Number.isNaN(count) ? null : count }
}
