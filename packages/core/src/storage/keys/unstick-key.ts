import { type Intent, type KeyRow, readKeyRow } from './key-row.js'
import { steered, type Steering, steeringValues } from './steered.js'
import { sealIntent } from '../sealed-values.js'
import { defineStatement, NOW, statusIs, type Store } from '../statement.js'

const unstickKeyStatement = defineStatement(
  'unstick_key',
  steered(
    'unstick',
    statusIs('stuck'),
    `, status = 'running', stuck_reason = NULL, attempts = 0, retries = 0, run_after = NULL, unstuck_at = ${NOW},
           effect_epoch = k.effect_epoch + $11::integer, intent = coalesce($12::json, k.intent)`,
  ),
)

/** What a person said about a call. */
export type SaidOfCall =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'not_made'; readonly phase: string }
  | { readonly kind: 'called'; readonly intent: Intent }

/** Lets a stuck key run again, with attempts and age reset. Returns null when the key has moved on. */
export async function unstickKey(store: Store, steering: Steering, said: SaidOfCall): Promise<KeyRow | null> {
  const { rows } = await unstickKeyStatement(store, [
    ...steeringValues(steering),
    said.kind === 'not_made' ? 1 : 0,
    sealIntent(store.tables, steering.read, intentOf(said, steering.read.nowMs)),
  ])
  return rows[0] === undefined ? null : readKeyRow(rows[0], store.tables)
}

function intentOf(said: SaidOfCall, nowMs: number): Intent | null {
  switch (said.kind) {
    case 'nothing':
      return null
    case 'not_made': {
      const { kind, phase } = said
      return { kind, phase, atMs: nowMs }
    }
    case 'called':
      return said.intent
  }
}
