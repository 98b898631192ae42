import type { Connection, Member, Sendable } from './batch.js'

/** The columns of a statement's rows, by its text: asked for once, since a text has the same columns each time. */
const columnsOf = new Map<string, readonly string[]>()

/**
 * A framework statement in a batch: its values are plain, its rows are text, and its columns are known after the first
 * time. A query of `pg` can do more, and costs several times as much. Null: it has a value that is not plain.
 */
export function plainMember(statement: Sendable): Member | null {
  const values: (string | Buffer | null)[] = []
  for (const value of statement.values ?? []) {
    const plain = toPlain(value)
    if (plain === undefined) return null
    values.push(plain)
  }
  return new PlainMember(statement, values)
}

function toPlain(value: unknown): string | Buffer | null | undefined {
  if (value === null || typeof value === 'string' || Buffer.isBuffer(value)) return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined
}

class PlainMember implements Member {
  readonly text: string
  readonly name: string | undefined
  readonly #values: readonly (string | Buffer | null)[]
  readonly #rows: Record<string, string | null>[] = []
  #columns: readonly string[] | undefined
  #described = false
  #command = ''
  declare callback?: (error: unknown, result?: unknown) => void
  declare handleError: Member['handleError']

  constructor({ text, name }: Sendable, values: readonly (string | Buffer | null)[]) {
    this.text = text
    this.name = name
    this.#values = values
    this.#columns = columnsOf.get(text)
  }

  prepare(connection: Connection): void {
    const { text, name } = this
    const isPrepared =
      name !== undefined &&
      (connection.parsedStatements[name] ?? connection.submittedNamedStatements[name]) !== undefined
    if (!isPrepared) {
      connection.parse({ text, name })
      if (name !== undefined) connection.submittedNamedStatements[name] = text
    }
    connection.bind({ values: this.#values, statement: name })
    this.#described = this.#columns === undefined
    if (this.#described) connection.describe({ type: 'P', name: '' })
    connection.execute({ portal: '' })
  }

  handleRowDescription(message: { readonly fields: readonly { readonly name: string }[] }): void {
    this.#columns = message.fields.map(({ name }) => name)
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    const row: Record<string, string | null> = {}
    const columns = this.#columns ?? []
    for (let index = 0; index < columns.length; index++) row[columns[index] as string] = fields[index] ?? null
    this.#rows.push(row)
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    const end = text.indexOf(' ')
    this.#command = end === -1 ? text : text.slice(0, end)
    if (this.#described) columnsOf.set(this.text, this.#columns ?? [])
  }

  handleReadyForQuery(): void {
    this.callback?.(null, { command: this.#command, rows: this.#rows })
  }
}
