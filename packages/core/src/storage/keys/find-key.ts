import { keyColumnsIn, keyColumnsToReplayIn, type KeyRow, readKeyRow } from './key-row.js'
import { defineStatement, type RunStatement, type Store } from '../statement.js'
import type { Tables } from '../tables.js'

const selecting =
  (columnsIn: (tables: Tables) => string) =>
  (tables: Tables): string =>
    `SELECT ${columnsIn(tables)} FROM ${tables.keys} AS k WHERE k.scope = $1 AND k.key = $2`

const findKeyStatement = defineStatement('find_key', selecting(keyColumnsIn))

export const findKeyToReplayStatement = defineStatement('find_key', selecting(keyColumnsToReplayIn))

/** Reads a key's row, without a lock. Returns null when there is none. */
export function findKey(store: Store, scope: string, key: string): Promise<KeyRow | null> {
  return find(findKeyStatement, store, scope, key)
}

/** The same, but for a finished key it reads only how it was answered. */
export function findKeyToReplay(store: Store, scope: string, key: string): Promise<KeyRow | null> {
  return find(findKeyToReplayStatement, store, scope, key)
}

/** The row that had this id when it was last seen. Another row under the same name is another request. */
export async function findSameKey(
  store: Store,
  { id, scope, key }: { readonly id: string; readonly scope: string; readonly key: string },
): Promise<KeyRow | null> {
  const row = await findKey(store, scope, key)
  return row?.id === id ? row : null
}

async function find(
  statement: RunStatement,
  store: Store,
  scope: string,
  key: string,
): Promise<KeyRow | null> {
  const { rows } = await statement(store, [scope, key], 'read')
  return rows[0] === undefined ? null : readKeyRow(rows[0], store.tables)
}
