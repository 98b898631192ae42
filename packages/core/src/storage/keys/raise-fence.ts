import { HELD, type Hold } from './hold.js'
import { KEY_COLUMNS, type KeyRow, readKeyRow } from './key-row.js'
import { boundedBy, defineStatement, msInterval, type Store } from '../statement.js'

const raiseFenceStatement = defineStatement(
  'raise_fence',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET fence = k.fence + 1, holder = $4::uuid,
         lease_until = CASE WHEN k.status = 'running' THEN clock_timestamp() + ${msInterval('$5')} END
    FROM ${boundedBy('$6')}
   WHERE ${HELD}
  RETURNING ${KEY_COLUMNS}`,
)

/**
 * Settles an unknown COMMIT: it waits for the lost transaction's row lock, and once this statement has committed, that
 * transaction no longer can. What it returns is the truth; null means that we were fenced off. It accepts any status and
 * recovery point: the commit in doubt may have moved both, and a failover may have lost earlier commits.
 */
export async function raiseFence(
  store: Store,
  hold: Hold,
  by: { readonly holder: string; readonly leaseMs: number; readonly lockTimeoutMs: number },
): Promise<KeyRow | null> {
  const { rows } = await raiseFenceStatement(store, [
    hold.id,
    hold.fence,
    hold.holder,
    by.holder,
    by.leaseMs,
    String(by.lockTimeoutMs),
  ])
  return rows[0] === undefined ? null : readKeyRow(rows[0])
}
