import type { StoredResponse } from '../../pipeline/directive.js'
import { type KeyRow, readKeyRow } from './key-row.js'
import { steered, type Steering, steeringValues } from './steered.js'
import { trailJson } from './trail.js'
import { defineStatement, msInterval, NOW, statusIs, type Store } from '../statement.js'

const answerKeyStatement = defineStatement(
  'answer_key',
  steered(
    'answer',
    statusIs('stuck'),
    `, status = 'finished', recovery_point = 'finished', stuck_reason = NULL, attempts = 0, retries = 0,
           run_after = NULL, intent = NULL, effect_epoch = 0, trail = $15::json,
           response_status = $11::smallint, response_headers = $12::json, response_body = $13::bytea,
           expires_at = ${NOW} + ${msInterval('$14')}`,
  ),
)

/** Finishes a stuck key with a response that no phase returned. Returns null when the key has moved on. */
export async function answerKey(
  store: Store,
  steering: Steering,
  response: StoredResponse,
  retentionMs: number,
): Promise<KeyRow | null> {
  const { read } = steering
  const finished = {
    point: 'finished',
    atMs: read.nowMs,
    fence: read.fence + 1,
    skipped: false,
    outcomeUnknown: false,
  }
  const { rows } = await answerKeyStatement(store, [
    ...steeringValues(steering),
    response.status,
    JSON.stringify(response.headers),
    response.body,
    retentionMs,
    trailJson([...read.trail, finished]),
  ])
  return rows[0] === undefined ? null : readKeyRow(rows[0])
}
