import { keyColumnsToReplayIn, type KeyRow, readKeyRow } from './key-row.js'
import { defineStatement, type Store } from '../statement.js'

/** A key that belongs to somebody else is not found, rather than read and withheld: it costs what an unknown id costs. */
const findOwnKeyStatement = defineStatement(
  'find_own_key',
  (tables) => `SELECT ${keyColumnsToReplayIn(tables)} FROM ${tables.keys} AS k
   WHERE k.id = $1::uuid AND k.scope = $2::text
     AND pg_catalog.substr(k.fingerprint, 1, pg_catalog.octet_length($3::bytea)) = $3::bytea`,
)

/**
 * Reads a key's row by its id, if it belongs to the scope. `fingerprintStart`: the beginning of the fingerprints of those
 * requests that may be asked about.
 */
export async function findOwnKey(
  store: Store,
  of: { readonly id: string; readonly scope: string; readonly fingerprintStart: Buffer },
): Promise<KeyRow | null> {
  const { rows } = await findOwnKeyStatement(store, [of.id, of.scope, of.fingerprintStart])
  return rows[0] === undefined ? null : readKeyRow(rows[0], store.tables)
}
