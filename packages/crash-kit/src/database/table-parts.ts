import type { SourceTable } from './source-tables.js'
import { type Queryable, textRows } from './text-rows.js'

/**
 * The parts of a table that CREATE TABLE … LIKE does not copy, or not as they are. They are read with an empty search path, so that
 * every name in a definition has its schema.
 */

/** A column default that refers to sequences. */
export interface SequenceDefault {
  readonly table: string
  readonly column: string
  readonly expression: string
  /** The sequence that belongs to the column, as that of a `serial` does; quoted. */
  readonly owned: string | null
}

/** Reads defaults that use sequences. Copied as they are, they would use the application's own. */
export async function readSequenceDefaults(
  on: Queryable,
  tables: readonly SourceTable[],
): Promise<SequenceDefault[]> {
  const rows = await textRows(
    on,
    `SELECT DISTINCT f.adrelid AS table, a.attname AS column, a.attnum, pg_get_expr(f.adbin, f.adrelid) AS expression,
            (SELECT format('%I.%I', n.nspname, s.relname)
               FROM pg_depend AS o JOIN pg_class AS s ON s.oid = o.objid JOIN pg_namespace AS n ON n.oid = s.relnamespace
              WHERE o.classid = 'pg_class'::regclass AND o.refclassid = 'pg_class'::regclass AND o.deptype = 'a'
                AND o.refobjid = f.adrelid AND o.refobjsubid = a.attnum AND s.relkind = 'S' LIMIT 1) AS owned
       FROM pg_attrdef AS f JOIN pg_attribute AS a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
       JOIN pg_depend AS d ON d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass
       JOIN pg_class AS s ON s.oid = d.refobjid AND s.relkind = 'S'
      WHERE f.adrelid = ANY ($1::oid[]) ORDER BY f.adrelid, a.attnum`,
    [tables.map(({ oid }) => oid)],
  )
  return rows.map((row) => ({
    table: row['table'] ?? '',
    column: row['column'] ?? '',
    expression: row['expression'] ?? '',
    owned: row['owned'] ?? null,
  }))
}

/** An identity column. */
export interface IdentityColumn {
  readonly table: string
  readonly column: string
  /** The sequence behind it. */
  readonly sequence: string
}

export async function readIdentityColumns(
  on: Queryable,
  tables: readonly SourceTable[],
): Promise<IdentityColumn[]> {
  const rows = await textRows(
    on,
    `SELECT a.attrelid AS table, a.attname AS column, format('%I.%I', n.nspname, c.relname) AS sequence
       FROM pg_attribute AS a
       JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'i'
                          AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum
       JOIN pg_class AS c ON c.oid = d.objid AND c.relkind = 'S' JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE a.attrelid = ANY ($1::oid[]) AND a.attidentity <> '' AND NOT a.attisdropped`,
    [tables.map(({ oid }) => oid)],
  )
  return rows.map((row) => ({
    table: row['table'] ?? '',
    column: row['column'] ?? '',
    sequence: row['sequence'] ?? '',
  }))
}

/** A constraint or an index: its name, and the definition that creates it. */
export interface TablePart {
  readonly table: string
  readonly name: string
  readonly definition: string
}

/** Reads primary keys, unique and exclusion constraints. LIKE would rename them, and applications look at names in errors. */
export async function readKeyConstraints(
  on: Queryable,
  tables: readonly SourceTable[],
): Promise<TablePart[]> {
  const rows = await textRows(
    on,
    `SELECT c.conrelid AS table, c.conname AS name, pg_get_constraintdef(c.oid) AS definition
       FROM pg_constraint AS c WHERE c.conrelid = ANY ($1::oid[]) AND c.contype IN ('p', 'u', 'x') ORDER BY c.oid`,
    [tables.map(({ oid }) => oid)],
  )
  return rows.map(readPart)
}

/** Reads the indexes that do not belong to a constraint. */
export async function readIndexes(on: Queryable, tables: readonly SourceTable[]): Promise<TablePart[]> {
  const rows = await textRows(
    on,
    `SELECT i.indrelid AS table, c.relname AS name, pg_get_indexdef(i.indexrelid) AS definition
       FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
      WHERE i.indrelid = ANY ($1::oid[]) AND i.indisvalid
        AND NOT EXISTS (SELECT FROM pg_constraint AS k WHERE k.conindid = i.indexrelid AND k.contype IN ('p', 'u', 'x'))
      ORDER BY i.indexrelid`,
    [tables.map(({ oid }) => oid)],
  )
  return rows.map(readPart)
}

export interface ForeignKey extends TablePart {
  readonly target: { readonly oid: string; readonly name: string; readonly source: string }
}

export async function readForeignKeys(on: Queryable, tables: readonly SourceTable[]): Promise<ForeignKey[]> {
  const rows = await textRows(
    on,
    `SELECT k.conrelid AS table, k.conname AS name, pg_get_constraintdef(k.oid) AS definition, k.confrelid AS target_oid,
            c.relname AS target_name, format('%I.%I', n.nspname, c.relname) AS target_source
       FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.confrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE k.conrelid = ANY ($1::oid[]) AND k.contype = 'f' AND k.conparentid = 0 ORDER BY k.oid`,
    [tables.map(({ oid }) => oid)],
  )
  return rows.map((row) => ({
    ...readPart(row),
    target: {
      oid: row['target_oid'] ?? '',
      name: row['target_name'] ?? '',
      source: row['target_source'] ?? '',
    },
  }))
}

function readPart(row: Readonly<Record<string, string | null>>): TablePart {
  return { table: row['table'] ?? '', name: row['name'] ?? '', definition: row['definition'] ?? '' }
}
