import type { Bound } from '../../driver/outgoing.js'
import type { StoredResponse } from '../../pipeline/directive.js'
import type { Wipe } from '../../pipeline/settings.js'
import { ADVANCED, AS_LEFT, type Carrying, epochAfter, intentAfter, intentIs } from './advanced.js'
import { heldOrFail } from './held-or-fail.js'
import { heldBy, type Hold, WRITTEN } from './hold.js'
import { trailJson, type TrailEntry } from './trail.js'
import { sealJson, sealResponse } from '../sealed-values.js'
import { defineStatement, msInterval, NOW } from '../statement.js'
import type { Tables } from '../tables.js'

/** `intent`: what becomes of what is known of a call. `wiped`: what becomes of columns that a replay does not need. */
const finish = (keys: string, intent: string, wiped: string): string =>
  heldOrFail(`
  UPDATE ${keys} AS k
     SET recovery_point = 'finished', status = 'finished', state = coalesce($6::json, k.state), trail = $7::json, lease_until = NULL,
         attempts = 0, retries = 0, run_after = NULL,${intent}, last_error = NULL,${wiped}
         response_status = $8::smallint, response_headers = $9::json, response_body = $10::bytea,
         expires_at = ${NOW} + ${msInterval('$11')}, updated_at = ${NOW}, ${WRITTEN}
   WHERE ${AS_LEFT} AND ${intentIs('$12', '$13')}
  RETURNING ${ADVANCED}`)

const WITHOUT_INPUT = ` input = 'null',`

/** By what is wiped. */
const FINISH = {
  nothing: defineStatement('finish_key', ({ keys }) => finish(keys, intentAfter('$13'), '')),
  input: defineStatement('finish_key', ({ keys }) => finish(keys, intentAfter('$13'), WITHOUT_INPUT)),
  all: defineStatement('finish_key', ({ keys }) =>
    finish(keys, ` intent = NULL, ${epochAfter('$13')}`, WITHOUT_INPUT),
  ),
} as const

/** What a key is finished with. */
export interface Finish extends Carrying {
  /** Null leaves it unchanged. */
  readonly stateJson: string | null
  readonly trail: readonly TrailEntry[]
  readonly response: StoredResponse
  readonly retentionMs: number
  /** The phase that the transaction begins with. If it is a foreign one, this settles its call. */
  readonly firstPhase: string
  /** What a replay does not need, and nobody is to find any more. */
  readonly wipe: Wipe
}

/** Stores the response and finishes the key, inside the transaction of the last phases and as its last statement. */
export function finishKey(tables: Tables, hold: Hold, to: Finish): Bound {
  const { headersJson, body } = sealResponse(tables, hold, to.response)
  return FINISH[to.wipe].bind(tables, [
    ...heldBy(hold),
    hold.recoveryPoint,
    stateLeft(tables, hold, to),
    trailJson(to.trail),
    to.response.status,
    headersJson,
    body,
    to.retentionMs,
    to.firstPhase,
    to.carriedCallOf,
  ])
}

function stateLeft(tables: Tables, hold: Hold, { wipe, stateJson }: Finish): string | null {
  if (wipe === 'all') return '{}'
  return stateJson === null ? null : sealJson(tables, hold, 'state', stateJson)
}
