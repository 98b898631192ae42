import {
  ADVANCED,
  type Advanced,
  AS_LEFT,
  type Carrying,
  intentAfter,
  intentIs,
  readAdvanced,
} from './advanced.js'
import { heldBy, type Hold, WRITTEN } from './hold.js'
import { trailJson, type TrailEntry } from './trail.js'
import { defineStatement, msInterval, NOW, type Store } from '../statement.js'

const skipStatement = defineStatement(
  'skip_phase',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET recovery_point = $6, lease_until = ${NOW} + ${msInterval('$7')}, trail = $8::json,
         attempts = 0, retries = 0, run_after = NULL,${intentAfter('$9')}, last_error = NULL,
         updated_at = ${NOW}, ${WRITTEN}
   WHERE ${AS_LEFT} AND ${intentIs('$10', '$9')}
  RETURNING ${ADVANCED}`,
)

/**
 * Skips a phase whose `when` said no; returns null when we were fenced off. A single statement needs no transaction of
 * its own.
 */
export async function skipPhase(
  store: Store,
  hold: Hold,
  to: Carrying & {
    readonly point: string
    /** The phase this leg begins with. If it is foreign, the leg settles its call. */
    readonly settles: string
    readonly trail: readonly TrailEntry[]
    readonly leaseMs: number
  },
): Promise<Advanced | null> {
  const { rows } = await skipStatement(store, [
    ...heldBy(hold),
    hold.recoveryPoint,
    to.point,
    to.leaseMs,
    trailJson(to.trail),
    to.carriedCallOf,
    to.settles,
  ])
  return rows[0] === undefined ? null : readAdvanced(rows[0])
}
