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
import { type CountedKey, countedValues, countingBytes } from '../usage/stored-bytes.js'

interface Parts {
  /** What becomes of what is known of a call. */
  readonly intent: string
  /** What becomes of columns that a replay does not need. */
  readonly wiped: string
}

/** `counted`: what is counted of the key afterwards, if it is counted. `also`: what else the statement does. */
const finish = (keys: string, { intent, wiped }: Parts, counted: string, also: string): string =>
  heldOrFail(
    `
  UPDATE ${keys} AS k
     SET recovery_point = 'finished', status = 'finished', state = coalesce($6::json, k.state), trail = $7::json, lease_until = NULL,
         attempts = 0, retries = 0, run_after = NULL,${intent}, last_error = NULL,${wiped}${counted}
         response_status = $8::smallint, response_headers = $9::json, response_body = $10::bytea,
         expires_at = ${NOW} + ${msInterval('$11')}, updated_at = ${NOW}, ${WRITTEN}
   WHERE ${AS_LEFT} AND ${intentIs('$12', '$13')}
  RETURNING ${ADVANCED}`,
    '',
    also,
  )

const WITHOUT_INPUT = ` input = 'null',`

/** By what is wiped. */
const PARTS: Readonly<Record<Wipe, Parts>> = {
  nothing: { intent: intentAfter('$13'), wiped: '' },
  input: { intent: intentAfter('$13'), wiped: WITHOUT_INPUT },
  all: { intent: ` intent = NULL, ${epochAfter('$13')}`, wiped: WITHOUT_INPUT },
}

const plain = ({ keys }: Tables, wipe: Wipe): string => finish(keys, PARTS[wipe], '', '')

/** What is counted of the key changes by $17 in the same statement. */
const counted = (tables: Tables, wipe: Wipe): string =>
  finish(
    tables.keys,
    PARTS[wipe],
    ' stored_bytes = $14::bigint,',
    `, counted AS (${countingBytes(
      tables,
      `SELECT 'stored_bytes', $1, $15, $16::integer, $17::bigint FROM advanced`,
    )})`,
  )

const FINISH = {
  nothing: defineStatement('finish_key', (tables) => plain(tables, 'nothing')),
  input: defineStatement('finish_key', (tables) => plain(tables, 'input')),
  all: defineStatement('finish_key', (tables) => plain(tables, 'all')),
} as const

/** Of a key whose bytes are counted. */
const FINISH_COUNTED = {
  nothing: defineStatement('finish_key', (tables) => counted(tables, 'nothing')),
  input: defineStatement('finish_key', (tables) => counted(tables, 'input')),
  all: defineStatement('finish_key', (tables) => counted(tables, 'all')),
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
  /** Null where the key's bytes are not counted. */
  readonly counts: CountedKey | null
}

/** Stores the response and finishes the key, inside the transaction of the last phases and as its last statement. */
export function finishKey(tables: Tables, hold: Hold, to: Finish): Bound {
  const { headersJson, body } = sealResponse(tables, hold, to.response)
  const { counts } = to
  const values = [
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
  ]
  return counts === null
    ? FINISH[to.wipe].bind(tables, values)
    : FINISH_COUNTED[to.wipe].bind(tables, [...values, ...countedValues(counts)])
}

function stateLeft(tables: Tables, hold: Hold, { wipe, stateJson }: Finish): string | null {
  if (wipe === 'all') return '{}'
  return stateJson === null ? null : sealJson(tables, hold, 'state', stateJson)
}
