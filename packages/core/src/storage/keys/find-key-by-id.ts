import { keyColumnsIn, type KeyRow, readKeyRow } from './key-row.js'
import { defineStatement, type Store } from '../statement.js'

const findKeyByIdStatement = defineStatement(
  'find_key_by_id',
  (tables) => `SELECT ${keyColumnsIn(tables)} FROM ${tables.keys} AS k WHERE k.id = $1::uuid`,
)

/** Reads a key's row by its id. Returns null when there is none. */
export async function findKeyById(store: Store, id: string): Promise<KeyRow | null> {
  const { rows } = await findKeyByIdStatement(store, [id])
  return rows[0] === undefined ? null : readKeyRow(rows[0], store.tables)
}
