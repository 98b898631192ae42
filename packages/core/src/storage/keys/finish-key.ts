import type { Bound } from '../../driver/outgoing.js'
import type { StoredResponse } from '../../pipeline/directive.js'
import { ADVANCED, AS_LEFT, type Carrying, intentAfter, intentIs } from './advanced.js'
import { heldOrFail } from './held-or-fail.js'
import { heldBy, type Hold, WRITTEN } from './hold.js'
import { trailJson, type TrailEntry } from './trail.js'
import { defineStatement, msInterval, NOW } from '../statement.js'
import type { Tables } from '../tables.js'

const finishStatement = defineStatement('finish_key', ({ keys }) =>
  heldOrFail(`
  UPDATE ${keys} AS k
     SET recovery_point = 'finished', status = 'finished', state = coalesce($6::json, k.state), trail = $7::json, lease_until = NULL,
         attempts = 0, retries = 0, run_after = NULL,${intentAfter('$13')}, last_error = NULL,
         response_status = $8::smallint, response_headers = $9::json, response_body = $10::bytea,
         expires_at = ${NOW} + ${msInterval('$11')}, updated_at = ${NOW}, ${WRITTEN}
   WHERE ${AS_LEFT} AND ${intentIs('$12', '$13')}
  RETURNING ${ADVANCED}`),
)

/** What a key is finished with. */
export interface Finish extends Carrying {
  /** Null leaves it unchanged. */
  readonly stateJson: string | null
  readonly trail: readonly TrailEntry[]
  readonly response: StoredResponse
  readonly retentionMs: number
  /** The phase that the transaction begins with. If it is a foreign one, this settles its call. */
  readonly firstPhase: string
}

/** Stores the response and finishes the key, inside the transaction of the last phases and as its last statement. */
export function finishKey(tables: Tables, hold: Hold, to: Finish): Bound {
  const { status, headers, body } = to.response
  return finishStatement.bind(tables, [
    ...heldBy(hold),
    hold.recoveryPoint,
    to.stateJson,
    trailJson(to.trail),
    status,
    JSON.stringify(headers),
    body,
    to.retentionMs,
    to.firstPhase,
    to.carriedCallOf,
  ])
}
