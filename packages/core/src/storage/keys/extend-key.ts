import { asRead } from './as-read.js'
import { WRITTEN } from './hold.js'
import { KEY_COLUMNS_WRITTEN, type KeyRow, readKeyRow } from './key-row.js'
import { type Steering, steeringValues } from './steered.js'
import { defineStatement, NOW, statusIs, type Store } from '../statement.js'

/**
 * Unlike other interventions, it leaves fence and holder alone: a holder that lost the answer to its COMMIT still has to find
 * that it was the one that finished the key.
 */
const extendKeyStatement = defineStatement(
  'extend_key',
  ({ keys, interventions, server }) => `
  WITH target AS (
    SELECT k.scope, k.key, ${server} AS server FROM ${keys} AS k
     WHERE k.scope = $1 AND k.key = $2 AND ${asRead('k.', 3)} AND ${statusIs('finished')}
       FOR NO KEY UPDATE OF k
  ), extended AS (
    UPDATE ${keys} AS k
       SET expires_at = to_timestamp($11::double precision / 1000), updated_at = ${NOW}, ${WRITTEN}
      FROM target WHERE k.scope = $1 AND k.key = $2 AND k.key = target.key
    RETURNING ${KEY_COLUMNS_WRITTEN}, target.server
  ), noted AS (
    INSERT INTO ${interventions} (id, key_id, scope, key, action, actor, reason, detail, created_at)
    SELECT $7::uuid, id, $1, key, 'extend', $8, $9, $10::json, ${NOW} FROM extended
  )
  SELECT * FROM extended`,
)

/** Lets a finished key expire at another moment. Returns null when the key has moved on. */
export async function extendKey(store: Store, steering: Steering, untilMs: number): Promise<KeyRow | null> {
  const { rows } = await extendKeyStatement(store, [...steeringValues(steering), untilMs])
  return rows[0] === undefined ? null : readKeyRow(rows[0], store.tables)
}
