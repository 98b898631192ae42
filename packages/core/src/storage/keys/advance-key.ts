import type { Bound } from '../../driver/outgoing.js'
import {
  ADVANCED,
  AS_LEFT,
  type Carrying,
  type Effect,
  effectValues,
  intentAfter,
  intentIs,
  type Outcome,
  trailWith,
} from './advanced.js'
import { alone, withEffect } from './held-or-fail.js'
import type { Hold } from './hold.js'
import { defineStatement, msInterval } from '../statement.js'
import type { Tables } from '../tables.js'

const advanceSql = ({ keys }: Tables, outcome?: Outcome): string => `
  UPDATE ${keys} AS k
     SET recovery_point = $5, state = $6::json, lease_until = clock_timestamp() + ${msInterval('$7')},
         trail = ${trailWith('$5', 'NULL::boolean', outcome)}, attempts = 0, retries = 0, run_after = NULL,${intentAfter('$8')},
         last_error = NULL, updated_at = clock_timestamp()
   WHERE ${AS_LEFT} AND ${intentIs('$5', '$8')}
  RETURNING ${ADVANCED}`

const advanceStatement = defineStatement('advance_key', alone(advanceSql))

const advanceUnknownStatement = defineStatement('advance_key', alone(advanceSql, 'unknown'))

const advanceWithEffectStatement = defineStatement('advance_key', withEffect(advanceSql, 9))

/** Moves the key to the next recovery point, inside the phase's own transaction and as its last statement. */
export function advanceKey(
  tables: Tables,
  hold: Hold,
  to: Carrying & { readonly point: string; readonly stateJson: string; readonly leaseMs: number },
  effect: Effect | 'outcome_unknown' | null,
): Bound {
  const values = [
    hold.id,
    hold.fence,
    hold.holder,
    hold.recoveryPoint,
    to.point,
    to.stateJson,
    to.leaseMs,
    to.carriedCallOf,
  ]
  if (effect === 'outcome_unknown') return advanceUnknownStatement.bind(tables, values)
  return effect === null
    ? advanceStatement.bind(tables, values)
    : advanceWithEffectStatement.bind(tables, [...values, ...effectValues(effect)])
}
