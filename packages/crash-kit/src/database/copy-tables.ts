import pg from 'pg'
import { KitError } from '../kit-error.js'
import { MAX_COPIED_ROWS } from '../limits.js'
import { type Blueprint, readBlueprint } from './copy-blueprint.js'
import type { KitSchemas } from './kit-schemas.js'
import { readLastValue, type SourceSequence, type SourceTable } from './source-tables.js'
import { readColumns } from './table-columns.js'
import type { ForeignKey, IdentityColumn, SequenceDefault, TablePart } from './table-parts.js'
import { textRows } from './text-rows.js'

/**
 * Copies the tables that `searchPath` shows into the business schema, with their rows as of one moment, and the sequences. The
 * application's own tables are only read.
 */
export async function copyTables(pool: pg.Pool, schemas: KitSchemas, searchPath: string): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    const blueprint = await readBlueprint(client, searchPath)
    await new Copier(client, schemas, blueprint).copy()
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}

class Copier {
  readonly #client: pg.PoolClient
  readonly #schemas: KitSchemas
  readonly #blueprint: Blueprint
  readonly #byOid: ReadonlyMap<string, SourceTable>

  constructor(client: pg.PoolClient, schemas: KitSchemas, blueprint: Blueprint) {
    this.#client = client
    this.#schemas = schemas
    this.#blueprint = blueprint
    this.#byOid = new Map(blueprint.tables.map((table) => [table.oid, table]))
  }

  /** Rows come before everything that would check them one by one. Foreign keys come last, since they need what they point to. */
  async copy(): Promise<void> {
    const { tables, sequences, defaults, identities, constraints, indexes, foreignKeys } = this.#blueprint
    for (const sequence of sequences) await this.#sequence(sequence)
    for (const table of tables) await this.#named(table.oid, () => this.#rows(table))
    for (const each of defaults) await this.#named(each.table, () => this.#default(each))
    for (const each of identities) await this.#named(each.table, () => this.#identity(each))
    for (const each of constraints) await this.#named(each.table, () => this.#constraint(each))
    for (const each of indexes) await this.#named(each.table, () => this.#index(each))
    for (const each of foreignKeys) await this.#named(each.table, () => this.#foreignKey(each))
  }

  /** Names the table in the error when it cannot be copied. */
  async #named(oid: string, step: () => Promise<void>): Promise<void> {
    try {
      await step()
    } catch (error) {
      if (error instanceof KitError) throw error
      throw new KitError(
        'PAWL_KIT_CANNOT_COPY',
        `Table ${this.#byOid.get(oid)?.source} cannot be copied: ${(error as Error).message}. ${hintFor(error)}Create the tables that the pipeline needs in \`prepare\` instead.`,
        { cause: error },
      )
    }
  }

  async #sequence({ name, source, definition }: SourceSequence): Promise<void> {
    const copy = this.#copyOf(name)
    await this.#client.query(`CREATE SEQUENCE ${copy} ${definition}`)
    await this.#catchUp(copy, source)
  }

  async #rows(table: SourceTable): Promise<void> {
    const { source, name } = table
    const copy = this.#copyOf(name)
    await this.#checkReadable(table)
    await this.#client.query(`CREATE TABLE ${copy} (LIKE ${source} INCLUDING ALL EXCLUDING INDEXES)`)
    const { insertable } = await readColumns(this.#client, this.#schemas.business, name)
    if (insertable.length === 0) return
    const columns = insertable.join(', ')
    await this.#client.query(
      `INSERT INTO ${copy} (${columns}) OVERRIDING SYSTEM VALUE SELECT ${columns} FROM ${rowsOf(table)}`,
    )
  }

  async #checkReadable(table: SourceTable): Promise<void> {
    const { source, readable } = table
    if (!readable) {
      throw new KitError(
        'PAWL_KIT_CANNOT_COPY',
        `Table ${source} cannot be copied: the role of the pool may write to it, but not read it. GRANT SELECT on it, or create the tables that the pipeline needs in \`prepare\` instead.`,
      )
    }
    const [row] = await textRows(
      this.#client,
      `SELECT count(*) AS rows FROM (SELECT FROM ${rowsOf(table)} LIMIT ${MAX_COPIED_ROWS + 1}) AS first`,
    )
    if (Number(row?.['rows']) <= MAX_COPIED_ROWS) return
    throw new KitError(
      'PAWL_KIT_TABLE_TOO_LARGE',
      `Table ${source} has more than ${MAX_COPIED_ROWS} rows; the kit does not copy that many. Create the tables that the pipeline needs in \`prepare\`, with the rows that it needs.`,
    )
  }

  async #default({ table, column, expression, owned }: SequenceDefault): Promise<void> {
    const copy = this.#copyOf(this.#nameOf(table))
    const name = pg.escapeIdentifier(column)
    const used = this.#blueprint.sequences.filter(({ source }) => expression.includes(reference(source)))
    const rewritten = used.reduce(
      (text, { source, name: sequence }) =>
        text.replaceAll(reference(source), reference(this.#copyOf(sequence))),
      expression,
    )
    await this.#client.query(`ALTER TABLE ${copy} ALTER COLUMN ${name} SET DEFAULT ${rewritten}`)
    const own = this.#blueprint.sequences.find(({ source }) => source === owned)
    if (own === undefined) return
    await this.#client.query(`ALTER SEQUENCE ${this.#copyOf(own.name)} OWNED BY ${copy}.${name}`)
    await this.#passLargest(this.#copyOf(own.name), copy, name)
  }

  async #identity({ table, column, sequence: source }: IdentityColumn): Promise<void> {
    const copy = this.#copyOf(this.#nameOf(table))
    const [row] = await textRows(this.#client, 'SELECT pg_get_serial_sequence($1, $2) AS sequence', [
      copy,
      column,
    ])
    const sequence = row?.['sequence'] ?? ''
    await this.#catchUp(sequence, source)
    await this.#passLargest(sequence, copy, pg.escapeIdentifier(column))
  }

  async #catchUp(sequence: string, source: string): Promise<void> {
    const lastValue = await readLastValue(this.#client, source)
    if (lastValue !== null) await this.#client.query('SELECT setval($1::regclass, $2)', [sequence, lastValue])
  }

  /** Rows that were inserted with explicit numbers may be ahead of the sequence. */
  async #passLargest(sequence: string, copy: string, column: string): Promise<void> {
    await this.#client.query(
      `SELECT setval($1::regclass, max(t.${column})::bigint) FROM ${copy} AS t, ${sequence} AS s, pg_sequence AS p
        WHERE p.seqrelid = $1::regclass AND p.seqincrement > 0 GROUP BY s.last_value, p.seqmax
       HAVING max(t.${column}) BETWEEN s.last_value AND p.seqmax`,
      [sequence],
    )
  }

  async #constraint({ table, name, definition }: TablePart): Promise<void> {
    const copy = this.#copyOf(this.#nameOf(table))
    await this.#client.query(`ALTER TABLE ${copy} ADD CONSTRAINT ${pg.escapeIdentifier(name)} ${definition}`)
  }

  async #index({ table, definition }: TablePart): Promise<void> {
    const { source, name } = this.#tableOf(table)
    const copy = this.#copyOf(name)
    const moved = definition
      .replace(` ON ONLY ${source} USING `, ` ON ${copy} USING `)
      .replace(` ON ${source} USING `, ` ON ${copy} USING `)
    await this.#client.query(moved)
  }

  async #foreignKey({ table, name, definition, target }: ForeignKey): Promise<void> {
    const place = this.#placeOf(target)
    if (place === null) return
    const moved = definition.replace(`REFERENCES ${target.source}(`, `REFERENCES ${place.copy}(`)
    const unchecked = place.empty && !moved.endsWith(' NOT VALID') ? ' NOT VALID' : ''
    const copy = this.#copyOf(this.#nameOf(table))
    await this.#client.query(
      `ALTER TABLE ${copy} ADD CONSTRAINT ${pg.escapeIdentifier(name)} ${moved}${unchecked}`,
    )
  }

  /** Returns what a copy's foreign key points to: another copy, or the kit's key table, which lacks the keys that rows refer to. */
  #placeOf({ oid, name }: ForeignKey['target']): { readonly copy: string; readonly empty: boolean } | null {
    const copied = this.#byOid.get(oid)
    if (copied !== undefined) return { copy: this.#copyOf(copied.name), empty: false }
    if (name === 'idempotency_keys') return { copy: `${this.#schemas.pawl}.idempotency_keys`, empty: true }
    return null
  }

  #tableOf(oid: string): SourceTable {
    const table = this.#byOid.get(oid)
    if (table === undefined) throw new TypeError(`Table ${oid} is not among those that are copied.`)
    return table
  }

  #nameOf(oid: string): string {
    return this.#tableOf(oid).name
  }

  #copyOf(name: string): string {
    return `${this.#schemas.business}.${pg.escapeIdentifier(name)}`
  }
}

/** Leaves out rows of tables that inherit from it: they are copied with their own tables. */
function rowsOf({ source, partitioned }: SourceTable): string {
  return partitioned ? source : `ONLY ${source}`
}

/** Returns how a definition refers to a sequence. */
function reference(sequence: string): string {
  return `${pg.escapeLiteral(sequence)}::regclass`
}

const INVALID_FOREIGN_KEY = '42830'

/** A key's id is unique in the whole table, or within its scope. */
function hintFor(error: unknown): string {
  if ((error as { code?: unknown }).code !== INVALID_FOREIGN_KEY) return ''
  return "If it refers to Pawl's keys, pass crashKit the `layout` of your application's tables. "
}
