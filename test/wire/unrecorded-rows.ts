import type { Violation } from '../../packages/crash-kit/src/history.js'
import type { KitDatabase } from '../../packages/crash-kit/src/database/kit-database.js'

/**
 * The other half of I15: what the triggers recorded is what is there. A row and the record of its last write have the
 * same `xmin`, which is that of a savepoint if it was written inside one. The record has the transaction's own id as well.
 */
export async function unrecordedRows(database: KitDatabase, tables: readonly string[]): Promise<Violation[]> {
  const found = await Promise.all(
    tables.map(async (table) => {
      const { rows } = await database.admin.query<{ row: string; xmin: string }>(
        `SELECT r::text AS row, r.xmin::text FROM ${database.schema}.${table} AS r
          WHERE NOT EXISTS (SELECT FROM ${database.id}_audit.history AS h
                             WHERE h.table_name = $1 AND h.after_row = r::text AND h.xmin = r.xmin)`,
        [table],
      )
      return rows.map(({ row, xmin }) => ({
        rule: 'I15',
        title: 'every row is as the last recorded write left it, and of the same transaction',
        detail: `${table} has ${row}, written by transaction ${xmin}, of which there is no record.`,
      }))
    }),
  )
  return found.flat()
}
