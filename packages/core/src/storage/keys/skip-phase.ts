import {
  ADVANCED,
  type Advanced,
  AS_LEFT,
  type Carrying,
  intentAfter,
  intentIs,
  readAdvanced,
  trailWith,
} from './advanced.js'
import type { Hold } from './hold.js'
import { boundedBy, defineStatement, msInterval, type Store } from '../statement.js'

const skipStatement = defineStatement(
  'skip_phase',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET recovery_point = $5, lease_until = clock_timestamp() + ${msInterval('$6')}, trail = ${trailWith('$5', 'true')},
         attempts = 0, retries = 0, run_after = NULL,${intentAfter('$8')}, last_error = NULL,
         updated_at = clock_timestamp()
    FROM ${boundedBy('$7')}
   WHERE ${AS_LEFT} AND ${intentIs('$5', '$8')}
  RETURNING ${ADVANCED}`,
)

/**
 * Skips a phase whose `when` said no; returns null when we were fenced off. A single statement needs no transaction of
 * its own.
 */
export async function skipPhase(
  store: Store,
  hold: Hold,
  to: Carrying & { readonly point: string; readonly leaseMs: number; readonly lockTimeoutMs: number },
): Promise<Advanced | null> {
  const { rows } = await skipStatement(store, [
    hold.id,
    hold.fence,
    hold.holder,
    hold.recoveryPoint,
    to.point,
    to.leaseMs,
    String(to.lockTimeoutMs),
    to.carriedCallOf,
  ])
  return rows[0] === undefined ? null : readAdvanced(rows[0])
}
