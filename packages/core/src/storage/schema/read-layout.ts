import { type Layout, layoutSql, readLayoutRow } from './layout.js'
import { defineStatement, type Store } from '../statement.js'

const readLayoutStatement = defineStatement('read_layout', layoutSql)

/** Reads how the tables are stored. */
export async function readLayout(store: Store): Promise<Layout> {
  const { rows } = await readLayoutStatement(store, [])
  return readLayoutRow(rows[0])
}
