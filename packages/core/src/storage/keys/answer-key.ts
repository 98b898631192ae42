import type { StoredResponse } from '../../pipeline/directive.js'
import type { Wipe } from '../../pipeline/settings.js'
import { type KeyRow, readKeyRow } from './key-row.js'
import { steered, type Steering, steeringValues } from './steered.js'
import { trailJson } from './trail.js'
import { sealResponse } from '../sealed-values.js'
import { defineStatement, msInterval, NOW, statusIs, type Store } from '../statement.js'
import type { Tables } from '../tables.js'

const answer = (wiped: string): ((tables: Tables) => string) =>
  steered(
    'answer',
    statusIs('stuck'),
    `, status = 'finished', recovery_point = 'finished', stuck_reason = NULL, attempts = 0, retries = 0,
           run_after = NULL, intent = NULL, effect_epoch = 0, trail = $15::json,
           response_status = $11::smallint, response_headers = $12::json, response_body = $13::bytea,
           expires_at = ${NOW} + ${msInterval('$14')}${wiped}`,
  )

/** The intent is gone in any case: what came of the call is the person's business now. */
const ANSWER = {
  nothing: defineStatement('answer_key', answer('')),
  input: defineStatement('answer_key', answer(`, input = 'null'`)),
  all: defineStatement('answer_key', answer(`, input = 'null', state = '{}', last_error = NULL`)),
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
  const { rows } = await ANSWER[wipe](store, [
    ...steeringValues(steering),
    response.status,
    headersJson,
    body,
    retentionMs,
    trailJson([...read.trail, finished]),
  ])
  return rows[0] === undefined ? null : readKeyRow(rows[0], store.tables)
}
