import pg from 'pg'
import { type Queryable, textRows } from './text-rows.js'

/** The columns of a table, quoted. */
export interface TableColumns {
  /** Those that an INSERT may name: all except generated ones. */
  readonly insertable: readonly string[]
  /** Those that an UPDATE may set: identity columns that are GENERATED ALWAYS are not among them. */
  readonly settable: readonly string[]
  /** Those of the primary key; empty where there is none. */
  readonly key: readonly string[]
}

export async function readColumns(on: Queryable, schema: string, table: string): Promise<TableColumns> {
  const rows = await textRows(
    on,
    `SELECT a.attname AS name, a.attgenerated <> '' AS generated, a.attidentity = 'a' AS always_identity,
            EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey))
              AS in_key
       FROM pg_attribute AS a
      WHERE a.attrelid = format('%I.%I', $1::text, $2::text)::regclass AND a.attnum > 0 AND NOT a.attisdropped
      ORDER BY a.attnum`,
    [schema, table],
  )
  const named = (wanted: (row: (typeof rows)[number]) => boolean): string[] =>
    rows.filter(wanted).map((row) => pg.escapeIdentifier(row['name'] ?? ''))
  return {
    insertable: named((row) => row['generated'] === 'f'),
    settable: named((row) => row['generated'] === 'f' && row['always_identity'] === 'f'),
    key: named((row) => row['in_key'] === 't'),
  }
}
