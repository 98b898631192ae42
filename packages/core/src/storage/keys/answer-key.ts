import type { StoredResponse } from '../../pipeline/directive.js'
import { type KeyRow, readKeyRow } from './key-row.js'
import { steered, type Steering, steeringValues } from './steered.js'
import { defineStatement, epochMs, msInterval, statusIs, type Store } from '../statement.js'

const answerKeyStatement = defineStatement(
  'answer_key',
  steered(
    'answer',
    statusIs('stuck'),
    `, status = 'finished', recovery_point = 'finished', stuck_reason = NULL, attempts = 0, retries = 0,
           run_after = NULL, intent = NULL, effect_epoch = 0,
           trail = k.trail || jsonb_build_array(jsonb_build_object('p', 'finished', 't', ${epochMs('clock_timestamp()')},
                                                                   'f', k.fence + 1)),
           response_status = $9::smallint, response_headers = $10::json, response_body = $11::bytea,
           expires_at = clock_timestamp() + ${msInterval('$12')}`,
  ),
)

/** Finishes a stuck key with a response that no phase returned. Returns null when the key has moved on. */
export async function answerKey(
  store: Store,
  steering: Steering,
  response: StoredResponse,
  retentionMs: number,
): Promise<KeyRow | null> {
  const { rows } = await answerKeyStatement(store, [
    ...steeringValues(steering),
    response.status,
    JSON.stringify(response.headers),
    response.body,
    retentionMs,
  ])
  return rows[0] === undefined ? null : readKeyRow(rows[0])
}
