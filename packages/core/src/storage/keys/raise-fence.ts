import { HELD, heldBy, type Hold, WRITTEN } from './hold.js'
import { KEY_COLUMNS_WRITTEN, type KeyRow, readKeyRow } from './key-row.js'
import { defineStatement, msInterval, NOW, type Store } from '../statement.js'

const raiseFenceStatement = defineStatement(
  'raise_fence',
  ({ keys, server }) => `
  UPDATE ${keys} AS k
     SET fence = k.fence + 1, holder = $5::uuid,
         lease_until = CASE WHEN k.status = 'running' THEN granted.until END, updated_at = ${NOW}, ${WRITTEN}
    FROM (SELECT ${NOW} + ${msInterval('$6')} AS until, ${server} AS server) AS granted
   WHERE ${HELD}
  RETURNING ${KEY_COLUMNS_WRITTEN}, granted.server`,
)

/**
 * Finds out what became of a COMMIT that got no answer. It waits for the lost transaction's row lock, and once this statement
 * has committed, that transaction no longer can. What it returns is the truth; null means that we were fenced off. It accepts
 * any status and recovery point: the commit in doubt may have moved both, and a failover may have lost earlier commits.
 * `raiseFenceOf` keeps trying until it is answered.
 */
export async function raiseFence(
  store: Store,
  hold: Hold,
  by: { readonly holder: string; readonly leaseMs: number },
): Promise<KeyRow | null> {
  const { rows } = await raiseFenceStatement(store, [...heldBy(hold), by.holder, by.leaseMs])
  return rows[0] === undefined ? null : readKeyRow(rows[0], store.tables)
}
