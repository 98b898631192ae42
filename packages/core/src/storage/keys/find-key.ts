import { KEY_COLUMNS, KEY_COLUMNS_TO_REPLAY, type KeyRow, readKeyRow } from './key-row.js'
import { defineStatement, type Store } from '../statement.js'

type FindKey = (store: Store, scope: string, key: string) => Promise<KeyRow | null>

function findKeyWith(columns: string): FindKey {
  const statement = defineStatement(
    'find_key',
    ({ keys }) => `SELECT ${columns} FROM ${keys} AS k WHERE k.scope = $1 AND k.key = $2`,
  )
  return async (store, scope, key) => {
    const { rows } = await statement(store, [scope, key], 'read')
    return rows[0] === undefined ? null : readKeyRow(rows[0])
  }
}

export const findKey = findKeyWith(KEY_COLUMNS)

/** The row that had this id when it was last seen. Another row under the same name is another request. */
export async function findSameKey(
  store: Store,
  { id, scope, key }: { readonly id: string; readonly scope: string; readonly key: string },
): Promise<KeyRow | null> {
  const row = await findKey(store, scope, key)
  return row?.id === id ? row : null
}

/** As `findKey`, but for a finished key it reads only how it was answered. */
export const findKeyToReplay = findKeyWith(KEY_COLUMNS_TO_REPLAY)
