import { HELD, type Hold } from './hold.js'
import { type Intent, SERVER } from './key-row.js'
import { boundedBy, defineStatement, epochMs, msInterval, statusIs, type Store } from '../statement.js'

const declareCallStatement = defineStatement(
  'declare_call',
  ({ keys }) => `
  UPDATE ${keys} AS k
     SET intent = json_build_object('kind', 'calling', 'phase', $4::text,
                                    'deadlineMs', ${epochMs(`clock_timestamp() + ${msInterval('$5')}`)},
                                    'timeoutMs', $5::double precision, 'server', ${SERVER}),
         lease_until = clock_timestamp() + ${msInterval('$6')}, updated_at = clock_timestamp()
    FROM ${boundedBy('$7')}
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
    readonly lockTimeoutMs: number
  },
): Promise<Intent | null> {
  const { rows } = await declareCallStatement(store, [
    hold.id,
    hold.fence,
    hold.holder,
    call.phase,
    call.timeoutMs,
    call.leaseMs,
    String(call.lockTimeoutMs),
    hold.recoveryPoint,
  ])
  const declared = rows[0]?.['intent']
  return declared == null ? null : (JSON.parse(declared) as Intent)
}
