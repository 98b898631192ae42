import { type Queryable, textRows } from './text-rows.js'

/** A table that is to be copied. Names are unquoted; `source` is quoted and has its schema. */
export interface SourceTable {
  readonly oid: string
  readonly schema: string
  readonly name: string
  readonly source: string
  readonly partitioned: boolean
  /** Whether the kit may read it. A role may have the right to write only. */
  readonly readable: boolean
}

/** The framework's own tables, wherever the application has them. */
const FRAMEWORK_TABLES = [
  'idempotency_keys',
  'effects',
  'staged_jobs',
  'interventions',
  'scope_usage',
  'cache_epoch',
  'pipelines',
  'duplicates',
  'readings',
  'migrations',
]

/** Columns that distinguish its key table from one that merely has the same name. */
const KEY_COLUMNS = ['definition_hash', 'fingerprint', 'recovery_point', 'holder', 'fence']

/** Whether a schema contains the framework's tables. */
const holdsFramework = (schema: string, columns: string): string => `
  EXISTS (SELECT FROM pg_class AS k WHERE k.relnamespace = ${schema} AND k.relname = 'idempotency_keys'
             AND cardinality(${columns}) = (SELECT count(*) FROM pg_attribute AS a
                                             WHERE a.attrelid = k.oid AND a.attname = ANY (${columns})))`

const ofExtension = (catalog: string, oid: string): string => `
  EXISTS (SELECT FROM pg_depend AS d WHERE d.classid = '${catalog}'::regclass AND d.objid = ${oid} AND d.deptype = 'e')`

/**
 * Reads the tables that the session's search path shows, without the framework's, those of extensions, and those that the role may
 * do nothing with. Partitions belong to their table.
 */
export async function readSourceTables(on: Queryable): Promise<SourceTable[]> {
  const rows = await textRows(
    on,
    `SELECT c.oid, n.nspname AS schema, c.relname AS name, format('%I.%I', n.nspname, c.relname) AS source,
            c.relkind = 'p' AS partitioned, has_table_privilege(c.oid, 'SELECT') AS readable
       FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
      WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND n.nspname = ANY (current_schemas(false)) AND pg_table_is_visible(c.oid)
        AND (has_any_column_privilege(c.oid, 'SELECT, INSERT, UPDATE') OR has_table_privilege(c.oid, 'DELETE'))
        AND NOT ${ofExtension('pg_class', 'c.oid')}
        AND NOT (c.relname = ANY ($1::text[]) AND ${holdsFramework('c.relnamespace', '$2::text[]')})
      ORDER BY c.oid`,
    [FRAMEWORK_TABLES, KEY_COLUMNS],
  )
  return rows.map((row) => ({
    oid: row['oid'] ?? '',
    schema: row['schema'] ?? '',
    name: row['name'] ?? '',
    source: row['source'] ?? '',
    partitioned: row['partitioned'] === 't',
    readable: row['readable'] === 't',
  }))
}

/** A sequence that is to be copied. */
export interface SourceSequence {
  readonly name: string
  readonly source: string
  /** What comes after CREATE SEQUENCE and its name. */
  readonly definition: string
}

/** Reads the sequences that the session's search path shows, and those that defaults use, but not those of identity columns. */
export async function readSourceSequences(
  on: Queryable,
  tables: readonly SourceTable[],
): Promise<SourceSequence[]> {
  const rows = await textRows(
    on,
    `SELECT c.relname AS name, format('%I.%I', n.nspname, c.relname) AS source,
            format('AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s CACHE %s %s', format_type(s.seqtypid, NULL),
                   s.seqincrement, s.seqmin, s.seqmax, s.seqstart, s.seqcache,
                   CASE WHEN s.seqcycle THEN 'CYCLE' ELSE 'NO CYCLE' END) AS definition
       FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_sequence AS s ON s.seqrelid = c.oid
      WHERE c.relkind = 'S' AND NOT ${ofExtension('pg_class', 'c.oid')}
        AND NOT EXISTS (SELECT FROM pg_depend AS d
                         WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'i')
        AND (n.nspname = ANY (current_schemas(false)) AND pg_table_is_visible(c.oid)
             OR EXISTS (SELECT FROM pg_depend AS d JOIN pg_attrdef AS f ON f.oid = d.objid
                         WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass
                           AND d.refobjid = c.oid AND f.adrelid = ANY ($1::oid[])))
      ORDER BY c.oid`,
    [tables.map(({ oid }) => oid)],
  )
  return rows.map((row) => ({
    name: row['name'] ?? '',
    source: row['source'] ?? '',
    definition: row['definition'] ?? '',
  }))
}

/**
 * Reads the last number that a sequence produced; null if there is none, or if this role may not see it. It reads one sequence at a
 * time, because asked about many at once, PostgreSQL also opens those that somebody else is just dropping, and fails.
 */
export async function readLastValue(on: Queryable, sequence: string): Promise<string | null> {
  const [row] = await textRows(
    on,
    `SELECT CASE WHEN has_sequence_privilege($1::regclass, 'USAGE, SELECT') THEN pg_sequence_last_value($1::regclass) END
              AS last_value`,
    [sequence],
  )
  return row?.['last_value'] ?? null
}
