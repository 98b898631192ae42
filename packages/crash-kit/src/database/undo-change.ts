import type { TableColumns } from './table-columns.js'

/** A change, with whole rows as text, because PostgreSQL reads back exactly what it wrote, which JSON does not promise. */
interface Undo {
  readonly op: 'INSERT' | 'UPDATE' | 'DELETE'
  readonly before: string | null
  readonly after: string | null
}

/** Returns the statement that takes back a change of `table`, which is quoted and has its schema. It has to affect one row. */
export function undoStatement(
  table: string,
  columns: TableColumns,
  { op, before, after }: Undo,
): { readonly text: string; readonly values: unknown[] } {
  const { insertable, settable } = columns
  switch (op) {
    case 'INSERT':
      return {
        text: `DELETE FROM ${table} AS t USING (SELECT $1::text AS row, $1::text::${table} AS now) AS x WHERE ${found(table, columns)}`,
        values: [after],
      }
    case 'DELETE':
      return {
        text: `INSERT INTO ${table} (${insertable.join(', ')}) OVERRIDING SYSTEM VALUE
               SELECT ${insertable.map(old).join(', ')} FROM (SELECT $1::text::${table} AS old) AS x`,
        values: [before],
      }
    case 'UPDATE':
      return {
        text: `UPDATE ${table} AS t SET ${settable.map((column) => `${column} = ${old(column)}`).join(', ')}
                 FROM (SELECT $1::text AS row, $1::text::${table} AS now, $2::text::${table} AS old) AS x
                WHERE ${found(table, columns)}`,
        values: [after, before],
      }
  }
}

/** A column as it was before the change. */
const old = (column: string): string => `(x.old).${column}`

/** Finds the row by its primary key or, without one, finds any row that is equal in all columns. */
function found(table: string, { key }: TableColumns): string {
  if (key.length > 0) return key.map((column) => `t.${column} = (x.now).${column}`).join(' AND ')
  return `(t.tableoid, t.ctid) = (SELECT o.tableoid, o.ctid FROM ${table} AS o WHERE (o.*)::text = x.row LIMIT 1)`
}
