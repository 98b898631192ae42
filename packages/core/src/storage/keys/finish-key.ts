import type { Bound } from '../../driver/outgoing.js'
import type { StoredResponse } from '../../pipeline/directive.js'
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

const finishSql = ({ keys }: Tables, outcome?: Outcome): string => `
  UPDATE ${keys} AS k
     SET recovery_point = 'finished', status = 'finished', lease_until = NULL,
         trail = ${trailWith("'finished'", 'NULL::boolean', outcome)}, attempts = 0, retries = 0, run_after = NULL,${intentAfter('$10')},
         last_error = NULL, response_status = $5::smallint, response_headers = $6::json,
         response_body = $7::bytea, expires_at = clock_timestamp() + ${msInterval('$8')}, updated_at = clock_timestamp()
   WHERE ${AS_LEFT} AND ${intentIs('$9', '$10')}
  RETURNING ${ADVANCED}`

const finishStatement = defineStatement('finish_key', alone(finishSql))

const finishUnknownStatement = defineStatement('finish_key', alone(finishSql, 'unknown'))

const finishWithEffectStatement = defineStatement('finish_key', withEffect(finishSql, 11))

/** Stores the response and finishes the key, inside the transaction of `phase` and as its last statement. */
export function finishKey(
  tables: Tables,
  hold: Hold,
  to: Carrying & {
    readonly phase: string
    readonly response: StoredResponse
    readonly retentionMs: number
  },
  effect: Effect | 'outcome_unknown' | null,
): Bound {
  const { status, headers, body } = to.response
  const values = [
    hold.id,
    hold.fence,
    hold.holder,
    hold.recoveryPoint,
    status,
    JSON.stringify(headers),
    body,
    to.retentionMs,
    to.phase,
    to.carriedCallOf,
  ]
  if (effect === 'outcome_unknown') return finishUnknownStatement.bind(tables, values)
  return effect === null
    ? finishStatement.bind(tables, values)
    : finishWithEffectStatement.bind(tables, [...values, ...effectValues(effect)])
}
