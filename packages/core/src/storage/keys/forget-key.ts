import { freeingBytes } from '../usage/stored-bytes.js'
import { HELD, heldBy, type Hold } from './hold.js'
import type { KeyRow } from './key-row.js'
import { defineStatement, statusIs, type Store } from '../statement.js'

const forget = (keys: string): string => `
  DELETE FROM ${keys} AS k
   WHERE ${HELD} AND ${statusIs('running')} AND k.recovery_point = 'started'`

const forgetKeyStatement = defineStatement(
  'forget_key',
  ({ keys }) => `${forget(keys)}
  RETURNING k.id`,
)

const forgetCountedKeyStatement = defineStatement(
  'forget_key',
  (tables) => `
  WITH gone AS (${forget(tables.keys)}
  RETURNING k.id, k.scope, k.pipeline, k.stored_bytes
  ), freed AS (${freeingBytes(tables, 'gone')})
  SELECT id FROM gone`,
)

/**
 * Deletes a key whose first phase has not committed, as if it had never been sent. Returns false when we were fenced off.
 */
export async function forgetKey(store: Store, hold: Hold & Pick<KeyRow, 'storedBytes'>): Promise<boolean> {
  const forgetIt = hold.storedBytes > 0 ? forgetCountedKeyStatement : forgetKeyStatement
  const { rows } = await forgetIt(store, heldBy(hold))
  return rows.length === 1
}
