import { type KeyRow, readKeyRow } from './key-row.js'
import { steered, type Steering, steeringValues } from './steered.js'
import { defineStatement, epochMs, statusIs, type Store } from '../statement.js'

const unstickKeyStatement = defineStatement(
  'unstick_key',
  steered(
    'unstick',
    statusIs('stuck'),
    `, status = 'running', stuck_reason = NULL, attempts = 0, retries = 0, run_after = NULL,
           unstuck_at = clock_timestamp(), effect_epoch = k.effect_epoch + CASE WHEN $9 = 'not_made' THEN 1 ELSE 0 END,
           intent = CASE WHEN $9 = 'called' THEN $11::json
                            WHEN $9 = 'not_made' THEN json_build_object('kind', 'not_made', 'phase', $10::text,
                                                                   'atMs', ${epochMs('clock_timestamp()')})
                            ELSE k.intent END`,
  ),
)

/** What a person said about a call. */
export type SaidOfCall =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'not_made'; readonly phase: string }
  | { readonly kind: 'called'; readonly phase: string; readonly intentJson: string }

/** Lets a stuck key run again, with attempts and age reset. Returns null when the key has moved on. */
export async function unstickKey(store: Store, steering: Steering, said: SaidOfCall): Promise<KeyRow | null> {
  const { rows } = await unstickKeyStatement(store, [
    ...steeringValues(steering),
    said.kind,
    said.kind === 'nothing' ? null : said.phase,
    said.kind === 'called' ? said.intentJson : null,
  ])
  return rows[0] === undefined ? null : readKeyRow(rows[0])
}
