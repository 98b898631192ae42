import type { StoredResponse } from '../../pipeline/directive.js'
import type { Wipe } from '../../pipeline/settings.js'
import { type KeyRow, readKeyRow } from './key-row.js'
import { steered, type Steering, steeringValues } from './steered.js'
import { trailJson } from './trail.js'
import { sealResponse } from '../sealed-values.js'
import { defineStatement, msInterval, NOW, statusIs, type Store } from '../statement.js'
import type { Tables } from '../tables.js'
import { countedKey, countedValues, countingBytes } from '../usage/stored-bytes.js'

const answer = (wiped: string, also?: (tables: Tables) => string): ((tables: Tables) => string) =>
  steered(
    'answer',
    statusIs('stuck'),
    `, status = 'finished', recovery_point = 'finished', stuck_reason = NULL, attempts = 0, retries = 0,
           run_after = NULL, intent = NULL, effect_epoch = 0, trail = $15::json,
           response_status = $11::smallint, response_headers = $12::json, response_body = $13::bytea,
           expires_at = ${NOW} + ${msInterval('$14')}${wiped}`,
    also,
  )

const counted = (tables: Tables): string =>
  `, counted AS (${countingBytes(
    tables,
    `SELECT 'stored_bytes', $1, $17, $18::integer, $19::bigint FROM steered`,
  )})`
const COUNTED = ', stored_bytes = $16::bigint'

const WIPED: Readonly<Record<Wipe, string>> = {
  nothing: '',
  input: `, input = 'null'`,
  all: `, input = 'null', state = '{}', last_error = NULL`,
}

/** The intent is gone in any case: what came of the call is the person's business now. */
const ANSWER = {
  nothing: defineStatement('answer_key', answer(WIPED.nothing)),
  input: defineStatement('answer_key', answer(WIPED.input)),
  all: defineStatement('answer_key', answer(WIPED.all)),
} as const

/** The same for a key whose bytes are counted. */
const ANSWER_COUNTED = {
  nothing: defineStatement('answer_key', answer(WIPED.nothing + COUNTED, counted)),
  input: defineStatement('answer_key', answer(WIPED.input + COUNTED, counted)),
  all: defineStatement('answer_key', answer(WIPED.all + COUNTED, counted)),
} as const

/** Finishes a stuck key with a response that no phase returned. Returns null when the key has moved on. */
export async function answerKey(
  store: Store,
  steering: Steering,
  response: StoredResponse,
  { retentionMs, wipe }: { readonly retentionMs: number; readonly wipe: Wipe },
): Promise<KeyRow | null> {
  const { read } = steering
  const finished = {
    point: 'finished',
    atMs: read.nowMs,
    fence: read.fence + 1,
    skipped: false,
    outcomeUnknown: false,
  }
  const { headersJson, body } = sealResponse(store.tables, read, response)
  const isCounted = read.storedBytes > 0
  const left = { stateJson: read.stateJson, response, wipe }
  const counts = isCounted ? countedValues(countedKey(read, left, 'read committed')) : []
  const { rows } = await (isCounted ? ANSWER_COUNTED : ANSWER)[wipe](store, [
    ...steeringValues(steering),
    response.status,
    headersJson,
    body,
    retentionMs,
    trailJson([...read.trail, finished]),
    ...counts,
  ])
  return rows[0] === undefined ? null : readKeyRow(rows[0], store.tables)
}
