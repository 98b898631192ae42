import { keyColumnsToReplayIn, type KeyRow, readKeyRow } from './key-row.js'
import { defineStatement, type Store } from '../statement.js'

/**
 * A key that belongs to somebody else is not found, rather than read and withheld: it costs what an unknown id costs. Where a request of
 * the scope came in, the server can tell of a plain fingerprint alone.
 */
const findOwnKeyStatement = defineStatement(
  'find_own_key',
  (tables) => `SELECT ${keyColumnsToReplayIn(tables)} FROM ${tables.keys} AS k
   WHERE k.id = $1::uuid AND k.scope = $2::text
     AND (k.fingerprint_version <> 1 OR pg_catalog.substr(k.fingerprint, 1, pg_catalog.octet_length($3::bytea)) = $3::bytea)`,
)

/**
 * Reads a key's row by its id, if it belongs to the scope. `plainStart`: the beginning of the plain fingerprints of those requests that
 * may be asked about. A keyed one is still to be compared.
 */
export async function findOwnKey(
  store: Store,
  of: { readonly id: string; readonly scope: string; readonly plainStart: Buffer },
): Promise<KeyRow | null> {
  const { rows } = await findOwnKeyStatement(store, [of.id, of.scope, of.plainStart])
  return rows[0] === undefined ? null : readKeyRow(rows[0], store.tables)
}
