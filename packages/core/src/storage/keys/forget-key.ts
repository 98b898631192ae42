import { HELD, heldBy, type Hold } from './hold.js'
import { defineStatement, statusIs, type Store } from '../statement.js'

const forgetKeyStatement = defineStatement(
  'forget_key',
  ({ keys }) => `
  DELETE FROM ${keys} AS k
   WHERE ${HELD} AND ${statusIs('running')} AND k.recovery_point = 'started'
  RETURNING k.id`,
)

/**
 * Deletes a key whose first phase has not committed, as if it had never been sent. Returns false when we were fenced off.
 */
export async function forgetKey(store: Store, hold: Hold): Promise<boolean> {
  const { rows } = await forgetKeyStatement(store, heldBy(hold))
  return rows.length === 1
}
