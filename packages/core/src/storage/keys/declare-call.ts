import { HELD, heldBy, type Hold, WRITTEN } from './hold.js'
import { calling } from './calling.js'
import type { Intent } from './key-row.js'
import { defineStatement, msInterval, NOW, statusIs, type Store } from '../statement.js'

const declareCallStatement = defineStatement(
  'declare_call',
  (tables) => `
  UPDATE ${tables.keys} AS k
     SET intent = ${calling(tables, '$5', '$6')}, lease_until = ${NOW} + ${msInterval('$7')}, updated_at = ${NOW}, ${WRITTEN}
   WHERE ${HELD} AND ${statusIs('running')} AND k.recovery_point = $8
  RETURNING k.intent`,
)

/** Durably records that the call is about to be made, and returns what was declared, or null when we were fenced off. */
export async function declareCall(
  store: Store,
  hold: Hold,
  call: {
    readonly phase: string
    readonly timeoutMs: number
    readonly leaseMs: number
  },
): Promise<Intent | null> {
  const { rows } = await declareCallStatement(store, [
    ...heldBy(hold),
    call.phase,
    call.timeoutMs,
    call.leaseMs,
    hold.recoveryPoint,
  ])
  const declared = rows[0]?.['intent']
  return declared == null ? null : (JSON.parse(declared) as Intent)
}
